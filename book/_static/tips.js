// What a link to a theorem, an equation, a source or a claim leads to, beside the link: for the pointer and for the keyboard.
(() => {
  "use strict";
  const article = document.querySelector("article.bd-article");
  const root = new URL(document.documentElement.dataset.content_root || "./", location.href).href;
  // A page that is read from a folder cannot read others.
  if (!article || location.protocol === "file:") return;

  const pages = new Map();
  const load = (address) => {
    if (address === location.href.split("#")[0]) return document;
    if (!pages.has(address)) {
      const text = fetch(address).then((answer) => (answer.ok ? answer.text() : ""));
      pages.set(address, text.then((html) => new DOMParser().parseFromString(html, "text/html")));
    }
    return pages.get(address);
  };
  // The part of a page that the link names, without names of its own; of a claim, its verdict and what we find.
  const find = async (link) => {
    const page = await load(link.href.split("#")[0]);
    const named = page.getElementById(decodeURIComponent(link.hash.slice(1)));
    if (!named?.matches(".proof, .citation, div.math, table.ledger tr")) return "";
    if (named.matches("tr")) {
      const [finding, verdict] = [...named.cells].slice(-2).map((cell) => cell.querySelector("p").innerHTML);
      return `${verdict} ${finding}`;
    }
    const part = named.cloneNode(true);
    part.querySelectorAll(".headerlink").forEach((each) => each.remove());
    [part, ...part.querySelectorAll("[id]")].forEach((each) => each.removeAttribute("id"));
    return part.outerHTML;
  };

  const tip = Object.assign(document.createElement("div"), { id: "book-tip", className: "book-tip", hidden: true });
  tip.setAttribute("role", "tooltip");
  document.body.append(tip);
  let shown, timer;

  const place = (link) => {
    const { left, bottom, top } = link.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = tip;
    const below = bottom + height + 8 < innerHeight || top < height + 8;
    tip.style.left = `${Math.max(8, Math.min(left, document.documentElement.clientWidth - width - 8)) + scrollX}px`;
    tip.style.top = `${(below ? bottom + 4 : top - height - 4) + scrollY}px`;
  };
  const hide = () => {
    clearTimeout(timer);
    shown?.removeAttribute("aria-describedby");
    shown = undefined;
    tip.hidden = true;
  };
  const show = async (link) => {
    const html = await find(link);
    if (!html || !(link.matches(":hover") || link === document.activeElement)) return;
    hide();
    shown = link;
    tip.innerHTML = html;
    tip.hidden = false;
    link.setAttribute("aria-describedby", tip.id);
    place(link);
  };
  const soon = (link, wait) => {
    clearTimeout(timer);
    timer = setTimeout(() => link ? show(link) : hide(), wait);
  };
  const linkOf = (event) => {
    const link = event.target.closest?.("a[href]");
    const own = link && article.contains(link) && !link.matches(".headerlink");
    return own && link.hash && link.href.startsWith(root) ? link : null;
  };

  document.addEventListener("mouseover", (event) => {
    const link = linkOf(event);
    if (link && link !== shown) soon(link, 200);
    else if (tip.contains(event.target) || link) clearTimeout(timer);
    else if (shown || timer) soon(null, 300);
  });
  document.addEventListener("focusin", (event) => {
    const link = linkOf(event);
    if (link?.matches(":focus-visible")) show(link);
    else hide();
  });
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
})();
