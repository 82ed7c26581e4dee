// Shows the headings that contain all words of the field.
"use strict";
(() => {
  const field = document.querySelector(".find input");
  const entries = [...document.querySelectorAll("main li")];
  const count = document.querySelector(".find output");
  field.closest(".find").hidden = false;
  const find = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    // Inner entries first: an entry stays for the sake of one inside of it.
    for (const entry of entries.toReversed()) {
      const text = entry.querySelector("a").textContent.toLowerCase();
      const own = words.every((word) => text.includes(word));
      entry.hidden = !own && !entry.querySelector("li:not([hidden])");
      found += own;
    }
    for (const section of document.querySelectorAll("main section")) {
      section.hidden = !section.querySelector("li:not([hidden])");
    }
    count.textContent = words.length ? `${found} found` : "";
  };
  field.addEventListener("input", find);
  find();
})();
