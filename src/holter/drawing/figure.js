// Makes a chart of a notebook interactive: a crosshair, the values at the pointer, a legend that hides lines.
function (root, {drawing, points}) {
  root.innerHTML = drawing
  const svg = root.querySelector("svg")
  if (!svg) return
  const make = (name, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name)
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value)
    return svg.appendChild(element)
  }
  const cross = make("line", {class: "grid", y1: points.top, y2: points.bottom, visibility: "hidden"})
  const told = root.querySelector("figure").appendChild(document.createElement("p"))
  told.className = "note"
  told.setAttribute("role", "status")
  told.textContent = "Point at the chart to read values; click a name to hide its line."
  const {x, series, left, right} = points
  const first = x[0], last = x.length > 1 ? x[x.length - 1] : x[0] + 1
  const number = value => value === null ? "no value" : Math.abs(value) >= 1e5 || (value && Math.abs(value) < 1e-3)
    ? value.toExponential(3) : String(+value.toPrecision(5))
  const hidden = new Set()
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect()
    const place = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width
    const at = first + (place - left) / (right - left) * (last - first)
    let near = 0
    for (let i = 1; i < x.length; i++) if (Math.abs(x[i] - at) < Math.abs(x[near] - at)) near = i
    const middle = left + (x[near] - first) / (last - first) * (right - left)
    cross.setAttribute("x1", middle)
    cross.setAttribute("x2", middle)
    cross.setAttribute("visibility", "visible")
    const values = series.filter(one => !hidden.has(one.kind)).map(one => `${one.name} ${number(one.values[near])}`)
    told.textContent = `${points.label} ${number(x[near])}: ${values.join(", ")}${points.unit ? " " + points.unit : ""}`
  })
  svg.addEventListener("pointerleave", () => cross.setAttribute("visibility", "hidden"))
  root.querySelectorAll(".legend li").forEach((item, at) => {
    const one = series[at]
    if (!one) return
    item.style.cursor = "pointer"
    item.tabIndex = 0
    item.setAttribute("role", "button")
    const toggle = () => {
      hidden.has(one.kind) ? hidden.delete(one.kind) : hidden.add(one.kind)
      item.style.opacity = hidden.has(one.kind) ? 0.4 : 1
      svg.querySelectorAll("." + one.kind).forEach(mark => { mark.style.display = hidden.has(one.kind) ? "none" : "" })
    }
    item.addEventListener("click", toggle)
    item.addEventListener("keydown", event => { if (event.key === "Enter") toggle() })
  })
}
