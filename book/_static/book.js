/* The book's own script: wide things that say so, folds that open and close together, notebooks that find their library. */
"use strict";

const WIDE = ".formula, .claims-table, .pst-scrollable-table-container, div.cell_output .text_html";

/* What scrolls sideways can be reached by keyboard, and fades at the side where it goes on. */
const showMore = (box) => {
  const hidden = box.scrollWidth - box.clientWidth;
  if (hidden <= 1) {
    ["tabindex", "role", "aria-label", "data-more"].forEach((name) => box.removeAttribute(name));
    return;
  }
  const sides = [box.scrollLeft > 1 && "left", box.scrollLeft < hidden - 1 && "right"].filter(Boolean);
  box.dataset.more = sides.join(" ");
  box.tabIndex = 0;
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", box.matches(".formula") ? "Formula, scrolls sideways" : "Output, scrolls sideways");
};

const watchWide = () => {
  const watcher = new ResizeObserver((entries) => entries.forEach((entry) => showMore(entry.target)));
  document.querySelectorAll(`article :is(${WIDE})`).forEach((box) => {
    watcher.observe(box);
    box.addEventListener("scroll", () => showMore(box), { passive: true });
  });
};

/* The theme's arrows in the list of pages have no name. */
const nameArrows = () => {
  document.querySelectorAll("nav li.has-children > details > summary").forEach((arrow) => {
    arrow.setAttribute("aria-label", `Pages below ${arrow.closest("li").querySelector("a").textContent.trim()}`);
  });
};

/* Who copies a formula gets its LaTeX. */
const copyLatex = (event) => {
  const selection = document.getSelection();
  if (!selection.rangeCount || !event.clipboardData) return;
  const part = selection.getRangeAt(0).cloneContents();
  const formulas = part.querySelectorAll("math[alttext]");
  if (!formulas.length) return;
  formulas.forEach((math) => {
    const sign = math.getAttribute("display") === "block" ? "$$" : "$";
    (math.closest(".math") ?? math).textContent = sign + math.getAttribute("alttext") + sign;
  });
  event.clipboardData.setData("text/plain", part.textContent);
  event.preventDefault();
};

/* Open or close all folds of the page; the choice holds for the next page, too. */
const FOLDS = "book-folds";

const setFolds = (choice) => {
  document.querySelectorAll("article details").forEach((fold) => (fold.open = choice === "open"));
};

const watchFolds = () => {
  const chosen = localStorage.getItem(FOLDS);
  if (chosen) setFolds(chosen);
  document.querySelectorAll("button[data-folds]").forEach((button) =>
    button.addEventListener("click", () => {
      localStorage.setItem(FOLDS, button.dataset.folds);
      setFolds(button.dataset.folds);
    })
  );
};

/* A link to what lies in a closed fold opens it. */
const openTarget = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const folds = [...document.querySelectorAll("article details:not([open])")].filter((fold) => fold.contains(target));
  folds.forEach((fold) => (fold.open = true));
  if (folds.length) target.scrollIntoView();
};

/* A notebook that is downloaded installs the library from where it came: the wheel lies beside it. */
const download = async (event) => {
  const link = event.target.closest('a[href$=".ipynb"]');
  if (!link || location.protocol === "file:") return;
  event.preventDefault();
  const text = await (await fetch(link.href)).text();
  const whole = text.replace(/(?<=LSALIB = \\")[^"\\]*/, (wheel) => new URL(wheel.split("/").pop(), link.href).href);
  const href = URL.createObjectURL(new Blob([whole]));
  Object.assign(document.createElement("a"), { href, download: link.href.split("/").pop() }).click();
};

watchFolds();
openTarget();
addEventListener("hashchange", openTarget);
watchWide();
nameArrows();
document.addEventListener("copy", copyLatex);
document.addEventListener("click", download);
