// Opens what a timeline shows in ui.perfetto.dev: the page comes from the internet, the trace stays in the browser.

const SITE = "https://ui.perfetto.dev";
const EVERY_MS = 100;
const PATIENCE_MS = 30_000;

/**
 * @param {import("../page.js").Page} page
 * @param {{from: number, to: number} | null} range seconds since the job's start; null is the whole job
 * @param {(text: string) => void} say
 */
export async function openInPerfetto(page, range, say) {
  // Only a click may open a window: it comes before the trace.
  const other = open(SITE);
  if (!other) return say("The browser did not open a window for ui.perfetto.dev.");
  say("The trace is made …");
  try {
    const answer = await page.fetch("trace", { from: range?.from, to: range?.to });
    const buffer = await answer.arrayBuffer();
    await ready(other);
    other.postMessage({ perfetto: { buffer, title: document.title } }, SITE);
    say("");
  } catch (error) {
    say(`Perfetto could not show it: ${error instanceof Error ? error.message : error}`);
  }
}

/** Wait until the other page answers, as it asks for. @param {Window} other @returns {Promise<void>} */
function ready(other) {
  return new Promise((resolve, reject) => {
    const began = Date.now();
    const timer = setInterval(() => {
      if (other.closed || Date.now() - began > PATIENCE_MS) finish(() => reject(new Error("ui.perfetto.dev does not answer")));
      else other.postMessage("PING", SITE);
    }, EVERY_MS);
    /** @param {() => void} then */
    const finish = (then) => {
      clearInterval(timer);
      removeEventListener("message", heard);
      then();
    };
    /** @param {MessageEvent} event */
    const heard = (event) => event.origin === SITE && event.data === "PONG" && finish(resolve);
    addEventListener("message", heard);
  });
}
