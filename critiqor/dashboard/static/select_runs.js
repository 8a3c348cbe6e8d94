// Shows how many runs are selected, and enables the comparison of two.
(() => {
  "use strict";
  const form = document.getElementById("compare-form");
  const button = document.getElementById("compare");
  const state = document.getElementById("pick-state");
  const update = () => {
    const selected = form.querySelectorAll("input[name=run]:checked").length;
    button.disabled = selected !== 2;
    button.classList.toggle("main", selected === 2);
    form.querySelector(".picked").classList.toggle("going", selected > 0);
    state.textContent = selected === 2 ? "" : `${selected} of 2 selected`;
  };
  form.addEventListener("change", update);
  addEventListener("pageshow", update);
  update();
})();
