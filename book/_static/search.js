// The search lists each page once, and first the one whose title was typed.
(() => {
  "use strict";
  const find = Search._performSearch;
  // A title without its chapter's number, which is marked up, and without punctuation.
  const plain = (title) => title.toLowerCase().replace(/<span.*?<\/span>|[^\p{L}\p{N} ]/gu, "").trim();

  // Sphinx sorts the best result to the end. A result with a description is an entry of the library, the others are pages.
  Search._performSearch = (query, ...terms) => {
    const words = plain(query), pages = new Set();
    const rank = ([, title, , entry]) => (entry ? 0 : plain(title) === words ? 2 : plain(title).includes(words) ? 1 : 0);
    return find(query, ...terms).reverse()
      .sort((one, other) => rank(other) - rank(one))
      .filter(([page, , , entry]) => entry || (!pages.has(page) && pages.add(page)))
      .reverse();
  };
})();
