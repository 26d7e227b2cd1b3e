package paymentsv1_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	paymentsv1 "chargeonce/api/payments/v1"
)

// document returns the OpenAPI document, and fails the test unless it is a valid one, its examples included.
func document(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(paymentsv1.OpenAPI)
	if err != nil {
		t.Fatalf("load the OpenAPI document: %v", err)
	}
	if err := doc.Validate(t.Context(), openapi3.EnableExamplesValidation()); err != nil {
		t.Fatalf("the OpenAPI document is not valid: %v", err)
	}
	return doc
}

func TestOpenAPIIsValidAndHasEveryOperation(t *testing.T) {
	t.Parallel()
	doc := document(t)
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("version of OpenAPI: got %s, want 3.1.0", doc.OpenAPI)
	}
	want := map[string][]string{
		"POST /payments":     {"201", "202", "400", "401", "402", "409", "410", "413", "415", "422", "429", "500", "503", "504"},
		"GET /payments":      {"200", "400", "401", "429", "500", "503", "504"},
		"GET /payments/{id}": {"200", "400", "401", "404", "429", "500", "503", "504"},

		"POST /webhooks/psp":     {"200", "400", "401", "409", "413", "500", "503"},
		"GET /healthz":           {"200"},
		"GET /readyz":            {"200", "503"},
		"GET /problems/{reason}": {"200", "404"},
		"GET /openapi.json":      {"200"},
		"GET /docs":              {"200"},
	}
	got := map[string][]string{}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			got[method+" "+path] = slices.Sorted(slices.Values(operation.Responses.Keys()))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("operations and their statuses (-want +got):\n%s", diff)
	}
}

func TestOpenAPIAsksForAKeyOnCreateAlone(t *testing.T) {
	t.Parallel()
	doc := document(t)
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			key := operation.Parameters.GetByInAndName("header", "Idempotency-Key")
			if create := method+" "+path == "POST /payments"; create != (key != nil && key.Required) {
				t.Errorf("%s %s: a required Idempotency-Key: got %v, want %v", method, path, !create, create)
			}
		}
	}
}

// Both forms of an integer of 64 bits are read, fractions and non-positive amounts are not, and nothing unknown is let through.
func TestOpenAPICarriesTheFieldRules(t *testing.T) {
	t.Parallel()
	body := document(t).Paths.Find("/payments").Post.RequestBody.Value.Content.Get("application/json").Schema.Value
	good := map[string]any{"order_id": "o-1", "amount": 1250.0, "currency": "EUR", "payment_method": "tok_visa"}
	tests := []struct {
		name   string
		member string
		value  any
		valid  bool
	}{
		{"as it is", "amount", 1250.0, true},
		{"amount as text", "amount", "1250", true},
		{"amount zero", "amount", 0.0, false},
		{"amount with a fraction", "amount", 12.5, false},
		{"currency in lower case", "currency", "eur", false},
		{"card number", "payment_method", "4242424242424242", false},
		{"order id missing", "order_id", nil, false},
		{"unknown field", "ammount", 1.0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			request := maps.Clone(good)
			request[tt.member] = tt.value
			if tt.value == nil {
				delete(request, tt.member)
			}
			err := body.VisitJSON(request, openapi3.EnableJSONSchema2020())
			if (err == nil) != tt.valid {
				t.Errorf("valid: got %v (%v), want %v", err == nil, err, tt.valid)
			}
		})
	}
}

// The key and the preference are of the operation that charges, and of no other.
func TestOpenAPIHasTheHeadersOfEachOperation(t *testing.T) {
	t.Parallel()
	want := map[string][]string{
		"CreatePayment": {"Grpc-Timeout", "Idempotency-Key", "Prefer"}, "ListPayments": {"Grpc-Timeout"}, "GetPayment": {"Grpc-Timeout"},
		"ReceiveEvent": {"webhook-id", "webhook-signature", "webhook-timestamp"},
	}
	for path, item := range document(t).Paths.Map() {
		for _, operation := range item.Operations() {
			var got []string
			for _, p := range slices.Concat(item.Parameters, operation.Parameters) {
				if p.Value.In == "header" {
					got = append(got, p.Value.Name)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(want[operation.OperationID], got); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", path, operation.OperationID, diff)
			}
			open := operation.Security != nil && len(*operation.Security) == 0
			if needsKey := strings.HasPrefix(path, "/payments"); needsKey == open {
				t.Errorf("%s %s: needs no API key: got %v, want %v", path, operation.OperationID, open, !needsKey)
			}
		}
	}
}

// A client generated from the document must know each error that a request can get. A wrong method concerns no operation, and
// is told among the components.
func TestOpenAPIHasEveryReasonUnderItsStatus(t *testing.T) {
	t.Parallel()
	doc := document(t)
	values := paymentsv1.Reason(0).Descriptor().Values()
	for i := 1; i < values.Len(); i++ {
		name := string(values.Get(i).Name())
		row := proto.GetExtension(values.Get(i).Options(), paymentsv1.E_Problem).(*paymentsv1.Problem)
		var found bool
		for _, item := range doc.Paths.Map() {
			for _, operation := range item.Operations() {
				response := operation.Responses.Value(strconv.Itoa(int(row.GetHttpStatus())))
				if response == nil {
					continue
				}
				media := response.Value.Content.Get("application/problem+json")
				found = found || media != nil && media.Examples[name] != nil
			}
		}
		for _, response := range doc.Components.Responses {
			media := response.Value.Content.Get("application/problem+json")
			found = found || media != nil && media.Examples[name] != nil
		}
		if !found {
			t.Errorf("%s: it stands nowhere under status %d", name, row.GetHttpStatus())
		}
	}
}
