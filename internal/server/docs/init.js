// Shows this server's own document, with nothing from elsewhere: no validator's badge, and no key kept in the browser.
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  validatorUrl: null,
  persistAuthorization: false,
});
