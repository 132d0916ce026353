// Keeps a page as fresh as its job: on word from the server it fetches the page anew and puts its inside in
// place, keeping what is open, marked and scrolled to. Without scripts the page is what it was when it came.

const main = document.getElementById("main");
const state = document.getElementById("state");

/** @param {string} text @param {boolean} [lost] */
function say(text, lost = false) {
  state.textContent = text;
  state.classList.toggle("lost", lost);
}

const kept = () => ({
  open: [...main.querySelectorAll("details")].map((one) => one.open),
  marked: new Set([...main.querySelectorAll("input:checked")].map((one) => one.value)),
  search: main.querySelector("input[type=search]")?.value,
});

async function refresh() {
  const before = kept();
  const answer = await fetch(location.href);
  if (!answer.ok) throw new Error(String(answer.status));
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
  if (!fresh || main.contains(document.activeElement)) return; // nothing is taken from under a hand
  main.replaceChildren(...fresh.childNodes);
  main.querySelectorAll("details").forEach((one, at) => (one.open = before.open[at] ?? one.open));
  main.querySelectorAll("input[type=checkbox]").forEach((one) => (one.checked = before.marked.has(one.value)));
  say(`as of ${new Date().toLocaleTimeString()}`);
}

if (main.dataset.events) {
  const events = new EventSource(main.dataset.events);
  let busy = false;
  let again = false;
  const changed = async () => {
    if (busy) return void (again = true);
    busy = true;
    try {
      await refresh();
    } catch (error) {
      say(`could not be brought up to date (${error.message})`, true);
    }
    busy = false;
    if (again) {
      again = false;
      setTimeout(changed, 1000);
    }
  };
  let lost = false;
  events.addEventListener("hello", () => {
    say("live");
    if (lost) changed();
    lost = false;
  });
  events.addEventListener("changed", changed);
  events.addEventListener("lost", (event) => say(event.data || "the job is gone", true));
  events.onerror = () => {
    lost = true;
    say("the server does not answer; trying again", true);
  };
}

/** Tell the job something; what came of it is said beside the button. */
async function order(bar, name, given) {
  const out = bar.querySelector("output");
  try {
    const answer = await fetch(`${bar.dataset.at}/${name}?store=${bar.dataset.store}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(given),
    });
    const told = await answer.json();
    out.textContent = answer.ok ? "the job was told" : told.error;
  } catch {
    out.textContent = "the server does not answer";
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-order=stop]");
  if (button && confirm("Stop this training? It gets SIGTERM, and SIGKILL after 30 seconds.")) {
    order(button.closest(".orders"), "stop", { grace_s: 30 });
  }
});
document.addEventListener("change", (event) => {
  const choice = event.target.closest("select[data-order=configure]");
  if (choice?.value) order(choice.closest(".orders"), "configure", { interval_ms: Number(choice.value) });
});
