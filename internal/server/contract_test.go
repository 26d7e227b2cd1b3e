package server_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	paymentsv1 "chargeonce/api/payments/v1"
)

// contract is the OpenAPI document, and what finds an operation in it.
type contract struct {
	doc    *openapi3.T
	router routers.Router
}

var openContract = sync.OnceValues(func() (contract, error) {
	doc, err := openapi3.NewLoader().LoadFromData(paymentsv1.OpenAPI)
	if err != nil {
		return contract{}, err
	}
	router, err := legacy.NewRouter(doc)
	return contract{doc, router}, err
})

// always are the headers that every response may have; all others must be the operation's.
var always = []string{"Content-Length", "Content-Type", "Date", "X-Content-Type-Options", "Content-Security-Policy", "Cache-Control", "Connection", "Referrer-Policy"}

// holdToContract holds a real response against the document: its status, its headers, and its body by the schema of its media type.
// All REST responses of this package's tests pass through here.
func holdToContract(t *testing.T, resp *http.Response, body string) {
	t.Helper()
	c, err := openContract()
	if err != nil {
		t.Fatal(err)
	}
	route, params := c.route(t, resp, body)
	if route == nil {
		return
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: resp.Request, PathParams: params, Route: route},
		Status:                 resp.StatusCode,
		Header:                 resp.Header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true,
			ExcludeResponseBody: !strings.HasSuffix(resp.Header.Get("Content-Type"), "json")}, // text is what it is
	}
	input.SetBodyBytes([]byte(body))
	if err := openapi3filter.ValidateResponse(t.Context(), input); err != nil {
		t.Errorf("%s %s: %s is not what the OpenAPI document says: %v\n%s", resp.Request.Method, resp.Request.URL.Path, resp.Status, err, body)
		return
	}
	told := slices.Clone(always)
	for name := range route.Operation.Responses.Status(resp.StatusCode).Value.Headers {
		told = append(told, http.CanonicalHeaderKey(name))
	}
	for name := range resp.Header {
		if !slices.Contains(told, name) {
			t.Errorf("%s %s: %s: the OpenAPI document does not tell of the header %s", resp.Request.Method, resp.Request.URL.Path, resp.Status, name)
		}
	}
}

// route finds the operation, or for a wrong path or method the response among the components.
func (c contract) route(t *testing.T, resp *http.Response, body string) (*routers.Route, map[string]string) {
	t.Helper()
	for reason, name := range map[string]string{"NOT_FOUND": "NotFound", "METHOD_NOT_ALLOWED": "MethodNotAllowed"} {
		if strings.Contains(body, `"reason":"`+reason+`"`) {
			responses := openapi3.NewResponses(openapi3.WithStatus(resp.StatusCode, c.doc.Components.Responses[name]))
			return &routers.Route{Spec: c.doc, Method: resp.Request.Method, Operation: &openapi3.Operation{Responses: responses}}, nil
		}
	}
	req := *resp.Request
	req.URL = &url.URL{Path: resp.Request.URL.Path}
	route, params, err := c.router.FindRoute(&req)
	if err != nil {
		t.Errorf("%s %s: the OpenAPI document has no such operation: %v", req.Method, req.URL.Path, err)
		return nil, nil
	}
	return route, params
}
