// What a link to a theorem, an equation, a source or a claim leads to, beside the link: for the pointer and for the keyboard.
(() => {
  "use strict";
  const home = document.documentElement.dataset.content_root || "./";
  const root = new URL(home, location.href).href;
  const article = document.querySelector("article.bd-article");
  if (!article) return;

  const key = (link) => link.href.startsWith(root) && link.hash ? decodeURI(link.href.slice(root.length)) : "";
  let data;
  const load = () => data ??= new Promise((done) => {
    const script = document.createElement("script");
    script.src = `${root}_static/tips-data.js`;
    script.onload = () => done(window.bookTips);
    script.onerror = () => done({});
    document.head.append(script);
  });

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
    const html = (await load())[key(link)];
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
    return link && article.contains(link) && !link.matches(".headerlink") && key(link) ? link : null;
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
