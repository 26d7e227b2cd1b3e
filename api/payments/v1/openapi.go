package paymentsv1

import _ "embed"

// OpenAPI is the OpenAPI 3.1 document of the REST face, as JSON.
//
//go:embed openapi.json
var OpenAPI []byte
