// Says how many runs are marked, and lets two be compared.
(() => {
  "use strict";
  const form = document.getElementById("compare-form");
  const button = document.getElementById("compare");
  const state = document.getElementById("pick-state");
  const tell = () => {
    const marked = form.querySelectorAll("input[name=run]:checked").length;
    button.disabled = marked !== 2;
    button.classList.toggle("main", marked === 2);
    form.querySelector(".picked").classList.toggle("going", marked > 0);
    state.textContent = marked === 2 ? "" : `${marked} of 2 marked`;
  };
  form.addEventListener("change", tell);
  addEventListener("pageshow", tell);
  tell();
})();
