// Looks at every text of the page and writes what is wrong into an element "report" of the document around the frame that
// it runs in: first a line with the number of texts and the width of the window, then a line a problem. Text may leave the window only inside an element that scrolls.
const problems = [];
let texts = 0;
const width = document.documentElement.clientWidth;
const shown = (element) => element.getClientRects().length > 0;
const words = (element) => JSON.stringify(element.textContent.trim().slice(0, 60));

if (document.documentElement.scrollWidth > width) {
  problems.push(`the page is ${document.documentElement.scrollWidth} wide in a window of ${width}`);
}

// Texts of the page: none may reach over the window or over the element that holds it.
for (const element of document.querySelectorAll("main *, header *, footer *")) {
  const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  const hidden = element.closest(".scroll, svg, legend, style, script");
  if (!own || hidden || !shown(element)) continue;
  texts += 1;
  const range = document.createRange();
  range.selectNodeContents(element);
  const box = range.getBoundingClientRect();
  const holder = element.closest("figure, .card, .box, section, header, footer, main").getBoundingClientRect();
  if (box.right > width + 0.5 || box.left < -0.5 || box.right > holder.right + 0.5) {
    problems.push(`${words(element)} reaches from ${box.left} to ${box.right} of ${holder.right}`);
  }
}

// Texts of pictures: none may leave its picture, none may touch another.
for (const picture of document.querySelectorAll("svg.picture")) {
  if (!shown(picture)) continue;
  const frame = picture.getBoundingClientRect();
  const boxes = [];
  for (const text of picture.querySelectorAll("text")) {
    texts += 1;
    const box = text.getBoundingClientRect();
    const name = words({ textContent: [...text.childNodes].filter((n) => n.nodeName !== "title").map((n) => n.textContent).join("") });
    if (box.left < frame.left - 0.5 || box.right > frame.right + 0.5 || box.top < frame.top - 0.5 || box.bottom > frame.bottom + 0.5) {
      problems.push(`${name} is cut off in ${picture.getAttribute("aria-label")}: ${box.left} to ${box.right} of ${frame.right}, ${box.top} to ${box.bottom} of ${frame.bottom}`);
    }
    boxes.push({ name, box });
  }
  boxes.forEach((a, i) => {
    for (const b of boxes.slice(i + 1)) {
      const across = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
      const down = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
      // A line's box is higher than its letters: a third of the height may be shared.
      if (across > 0.5 && down > Math.min(a.box.height, b.box.height) * 0.34) {
        problems.push(`${a.name} lies on ${b.name} in ${picture.getAttribute("aria-label")}`);
      }
    }
  });
}

const report = document.createElement("pre");
report.id = "report";
report.textContent = `${texts} ${width}\n${problems.join("\n")}`;
window.parent.document.body.append(report);
