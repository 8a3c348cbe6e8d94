// Shows how many runs are selected, and enables what can be done with them.
(() => {
  "use strict";
  const form = document.getElementById("compare-form");
  const button = document.getElementById("compare");
  const state = document.getElementById("pick-state");
  const update = () => {
    const selected = form.querySelectorAll("input[name=run]:checked").length;
    button.disabled = selected !== 2;
    for (const other of form.querySelectorAll("[data-any]")) other.disabled = !selected;
    button.classList.toggle("main", selected === 2);
    form.querySelector(".picked").classList.toggle("going", selected > 0);
    state.textContent = `${selected} selected; two can be compared`;
  };
  form.addEventListener("change", update);
  addEventListener("pageshow", update);
  update();
})();
