// The reason for a missing chart as a paragraph; text in backticks becomes code.

/** @param {string} text */
export function note(text) {
  const paragraph = Object.assign(document.createElement("p"), { className: "note" });
  text.split("`").forEach((part, at) => {
    paragraph.append(at % 2 ? Object.assign(document.createElement("code"), { textContent: part }) : part);
  });
  return paragraph;
}
