// Keyboard commands: registered with a description and listed by `?`. An island's command overrides the page's.

/** @typedef {{description: string, key: string, run: (event: KeyboardEvent) => void}} Command */

const CHORD_MS = 3000; // time between the two keys of a chord

export class Keys {
  constructor() {
    /** @type {Command[]} */
    this.commands = [];
    this.begun = "";
    this.at = 0;
    document.addEventListener("keydown", (event) => this.pressed(event));
  }

  /**
   * Register a command; `key` as `?`, `Escape`, `g o` (one after the other). Returns what takes it back.
   * @param {string} description
   * @param {string} key
   * @param {(event: KeyboardEvent) => void} run
   */
  add(description, key, run) {
    const command = { description, key, run };
    this.commands.push(command);
    return () => {
      this.commands = this.commands.filter((one) => one !== command);
    };
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || typing(event)) return;
    if (event.key === "Escape" && document.querySelector("dialog[open]")) return; // it closes the drawer
    const chord = event.timeStamp - this.at < CHORD_MS && this.begun ? `${this.begun} ${event.key}` : event.key;
    const found = this.commands.findLast((one) => one.key === chord);
    this.begun = found || chord !== event.key ? "" : event.key;
    this.at = event.timeStamp;
    if (!found) return;
    event.preventDefault();
    found.run(event);
  }

  /** All commands; the last that took a key is the one that counts. */
  listed() {
    return [...new Map(this.commands.map((one) => [one.key, one])).values()];
  }

  /** Show all commands. */
  help() {
    const dialog = document.createElement("dialog");
    dialog.className = "help";
    dialog.setAttribute("aria-label", "keyboard");
    const title = document.createElement("h2");
    title.textContent = "Keyboard";
    const list = document.createElement("dl");
    for (const { key, description } of this.listed()) {
      const term = document.createElement("dt");
      for (const part of key.split(" ")) term.append(Object.assign(document.createElement("kbd"), { textContent: part }));
      list.append(term, Object.assign(document.createElement("dd"), { textContent: description }));
    }
    const close = Object.assign(document.createElement("button"), { textContent: "Close" });
    close.addEventListener("click", () => dialog.close());
    dialog.append(title, list, close);
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }
}

/** @param {KeyboardEvent} event */
function typing(event) {
  if (document.querySelector("dialog[open]:not(.drawer)")) return true;
  const target = event.target;
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !["checkbox", "radio", "button"].includes(target.type);
  return target.isContentEditable || target instanceof HTMLSelectElement || target instanceof HTMLTextAreaElement;
}
