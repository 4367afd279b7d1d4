// Accessibility of what Sphinx and its theme write: names of landmarks, levels of headings, lists that are only layout,
// and regions that scroll, which must be reachable by the keyboard.

const each = (selector, change) => document.querySelectorAll(selector).forEach(change);

document.addEventListener("DOMContentLoaded", () => {
  each("p.caption[role=heading]", (caption) => caption.setAttribute("aria-level", "2"));
  each("aside.sidebar-drawer", (aside) => aside.setAttribute("aria-label", "All pages"));
  each("aside.toc-drawer", (aside) => aside.setAttribute("aria-label", "On this page"));
  each(".sig dl, .sig dl > dd", (layout) => layout.setAttribute("role", "presentation"));
  const reachable = () =>
    each("article pre, article .table-wrapper", (region) => {
      if (region.scrollWidth > region.clientWidth) region.tabIndex = 0;
      else region.removeAttribute("tabindex");
    });
  reachable();
  window.addEventListener("resize", reachable);
});
