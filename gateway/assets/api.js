// Opens the viewer below the operation that the address names (`#CreateLabel`). It is loaded when the first one is opened.
"use strict";

(() => {
  const { dataset } = document.currentScript;
  const documentUrl = new URL(dataset.document, document.baseURI);
  const place = document.createElement("div");
  place.className = "viewer";
  let loading = null;

  const load = async () => {
    // Else a part of the viewer (zenscroll) takes over all links to anchors, and the address changes without an event.
    window.noZensmooth = true;
    const style = document.createElement("link");
    style.rel = "stylesheet";
    style.href = dataset.style;
    const script = document.createElement("script");
    script.src = dataset.script;
    const loaded = [style, script].map((element) => new Promise((resolve, reject) => {
      element.onload = resolve;
      element.onerror = () => reject(new Error("the viewer cannot be loaded"));
    }));
    document.head.append(style, script);
    const response = await fetch(documentUrl);
    const api = await response.json();
    await Promise.all(loaded);
    // What the operation's own description has already is left out, and nothing asks another host.
    const nothing = () => () => null;
    const ui = window.SwaggerUIBundle({
      domNode: place,
      spec: { ...api, paths: {} },
      plugins: [{ wrapComponents: { InfoContainer: nothing, ServersContainer: nothing } }],
      defaultModelsExpandDepth: -1,
      docExpansion: "full",
      tryItOutEnabled: true,
      validatorUrl: null,
    });
    return { api, ui };
  };

  const find = (paths, id) => {
    for (const [path, operations] of Object.entries(paths)) {
      for (const [method, operation] of Object.entries(operations)) {
        if (operation.operationId === id) {
          return { [path]: { [method]: operation } };
        }
      }
    }
    return null;
  };

  // The name in the address; empty for one that is not encoded (`#%`).
  const named = () => {
    try {
      return decodeURIComponent(window.location.hash.slice(1));
    } catch {
      return "";
    }
  };

  const open = async () => {
    const id = named();
    const section = document.getElementById(id);
    if (section?.className !== "operation") {
      return;
    }
    place.remove();
    section.append(place);
    section.scrollIntoView();
    try {
      loading ??= load();
      const { api, ui } = await loading;
      const paths = find(api.paths, id);
      if (paths && section.contains(place)) {
        // Requests go to the host and folder that served this page. The viewer stays the same, so that it keeps the token.
        const root = new URL("../..", documentUrl).href.replace(/\/$/, "");
        const accepted = JSON.stringify(Object.values(Object.values(paths)[0])[0].security ?? []);
        const schemes = Object.entries(api.components.securitySchemes).filter(([name]) => accepted.includes(`"${name}"`));
        const components = { ...api.components, securitySchemes: Object.fromEntries(schemes) };
        ui.specActions.updateSpec(JSON.stringify({ ...api, servers: [{ url: root }], components, paths }));
      }
    } catch (error) {
      loading = null;
      place.textContent = error.message;
    }
  };

  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const paint = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
  dark.addEventListener("change", paint);
  paint();
  document.documentElement.classList.add("with-script");
  document.addEventListener("click", (event) => {
    if (event.target.matches?.(".try") && event.target.hash === window.location.hash) {
      open();
    }
  });
  window.addEventListener("hashchange", open);
  open();
})();
