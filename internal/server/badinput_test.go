package server_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	paymentsv1 "chargeonce/api/payments/v1"
)

// untouched holds that a request has claimed nothing, charged nothing and said nothing.
func (e *env) untouched(key string) {
	e.t.Helper()
	if got := e.count(`SELECT COUNT(*) FROM idempotency_keys`); got != 0 {
		e.t.Errorf("%d keys were claimed, want none", got)
	}
	if got := e.sim.Stats().Requests["POST /charges"]; len(got) != 0 {
		e.t.Errorf("the PSP got %v", got)
	}
	if row := e.keyRow(key); row != "none" {
		e.t.Errorf("the key's row: %s", row)
	}
}

func TestBadBodiesAreRefusedByField(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	good := func(change string) string {
		return `{"order_id":"o-1","currency":"EUR","payment_method":"tok_visa",` + change + `}`
	}
	tests := []struct {
		name       string
		body       string
		violations []string // nil: the body as a whole is at fault
	}{
		{"amount zero", good(`"amount":0`), []string{"amount: value is required"}},
		{"amount null", good(`"amount":null`), []string{"amount: value is required"}},
		{"amount missing", good(`"description":""`), []string{"amount: value is required"}},
		{"amount negative", good(`"amount":-1`), []string{"amount: must be greater than 0"}},
		{"amount a fraction", good(`"amount":12.5`), []string{"amount: must be a whole number within 64 bits"}},
		{"amount a fraction in text", good(`"amount":"12.5"`), []string{"amount: must be a whole number within 64 bits"}},
		{"amount 2^63", good(`"amount":9223372036854775808`), []string{"amount: must be a whole number within 64 bits"}},
		{"amount huge", good(`"amount":1e400`), []string{"amount: must be a whole number within 64 bits"}},
		{"amount true", good(`"amount":true`), []string{"amount: must be a whole number within 64 bits"}},
		{"amount an object", good(`"amount":{"value":1}`), []string{"amount: must be a whole number within 64 bits"}},
		{"order id a number", `{"order_id":1,"amount":1,"currency":"EUR","payment_method":"tok_visa"}`,
			[]string{"order_id: must be a string of valid UTF-8"}},
		{"currency unknown", `{"order_id":"o","amount":1,"currency":"ABC","payment_method":"tok_visa"}`,
			[]string{"currency: must be an active ISO 4217 currency code"}},
		{"case 21 an unknown field", good(`"amount":1,"amout":2`), []string{"amout: there is no such field"}},
		{"an unknown field with a card number for a name", good(`"amount":1,"4242 4242 4242 4242":2`),
			[]string{"(a name that is not shown): there is no such field"}},
		{"an unknown field of control characters", good(`"amount":1,"a\u0000b":2`),
			[]string{"(a name that is not shown): there is no such field"}},
		{"a member twice", good(`"amount":1,"amount":2`), []string{"amount: stands more than once"}},
		{"a member twice, the same", good(`"amount":1,"amount":1`), []string{"amount: stands more than once"}},
		{"a member twice, escaped", good(`"amount":1,"\u0061mount":2`), []string{"amount: stands more than once"}},
		{"a member in both spellings", good(`"amount":1,"orderId":"o-2"`), []string{"order_id: stands more than once"}},
		{"several faults at once", `{"order_id":7,"amount":1.5,"x":1}`,
			[]string{"order_id: must be a string of valid UTF-8", "amount: must be a whole number within 64 bits", "x: there is no such field"}},
		{"invalid UTF-8", good(`"amount":1,"description":"` + "\xff" + `"`), []string{"description: must be a string of valid UTF-8"}},
		{"half a surrogate pair", good(`"amount":1,"description":"\ud800"`), []string{"description: must be a string of valid UTF-8"}},
		{"case 24 a card number", `{"order_id":"o","amount":1,"currency":"EUR","payment_method":"4242424242424242"}`,
			[]string{"payment_method: card numbers must never be sent here: send the token that the payment provider gave for the card",
				"payment_method: does not match regex pattern `^tok_[A-Za-z0-9_]+$`"}},
		{"case 24 a card number in the description", good(`"amount":1,"description":"4242 4242 4242 4242"`),
			[]string{"description: card numbers must never be sent here: 13 or more digits in a row are refused"}},
		{"broken", `{"order_id":`, nil},
		{"two objects", good(`"amount":1`) + `{}`, nil},
		{"an array", `[]`, nil},
		{"a string", `"x"`, nil},
		{"null", `null`, nil},
		{"empty", "", nil},
		{"white space", " \n ", nil},
		{"no JSON", "order_id=o-1&amount=1", nil},
		{"nested deeply", strings.Repeat("[", 20_000), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := e.in(t)
			_, key, got := e.post(tt.body)
			got.check(t, overREST, tableRow{reason: "REQUEST_INVALID", http: 400, nextAction: fixRequest})
			if diff := cmp.Diff(tt.violations, got.Violations); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
			if strings.Contains(got.Body, "4242") {
				t.Errorf("a card number came back: %s", got.Body)
			}
			e.untouched(key)
		})
	}
}

// in returns the env for use in a subtest.
func (e *env) in(t *testing.T) *env {
	c := *e
	c.t = t
	return &c
}

func TestBadRequestsAreRefusedBeforeTheyAreRead(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	const body = `{"order_id":"o-1","amount":1,"currency":"EUR","payment_method":"tok_visa"}`
	media := tableRow{reason: "UNSUPPORTED_MEDIA_TYPE", http: 415, nextAction: fixRequest}
	invalid := tableRow{reason: "REQUEST_INVALID", http: 400, nextAction: fixRequest}
	tests := []struct {
		name   string
		path   string
		header http.Header
		want   tableRow
	}{
		{"no media type", "/payments", http.Header{"Content-Type": nil}, media},
		{"another media type", "/payments", http.Header{"Content-Type": {"text/json"}}, media},
		{"a form", "/payments", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, media},
		{"a form that asks to be a GET", "/payments",
			http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "X-Http-Method-Override": {"GET"}}, media},
		{"another charset", "/payments", http.Header{"Content-Type": {"application/json; charset=latin1"}}, media},
		{"two media types", "/payments", http.Header{"Content-Type": {"application/json", "application/json"}}, media},
		{"compressed", "/payments", http.Header{"Content-Encoding": {"gzip"}}, media},
		{"a query", "/payments?order_id=o-2", nil, invalid},
		{"a malformed query", "/payments?%zz", nil, invalid},
		{"Grpc-Timeout without a unit", "/payments", http.Header{"Grpc-Timeout": {"5"}}, invalid},
		{"Grpc-Timeout with a unit that is none", "/payments", http.Header{"Grpc-Timeout": {"5s"}}, invalid},
		{"Grpc-Timeout negative", "/payments", http.Header{"Grpc-Timeout": {"-5S"}}, invalid},
		{"Grpc-Timeout empty", "/payments", http.Header{"Grpc-Timeout": {""}}, invalid},
		{"Grpc-Timeout too long", "/payments", http.Header{"Grpc-Timeout": {"123456789S"}}, invalid},
		{"Grpc-Timeout twice", "/payments", http.Header{"Grpc-Timeout": {"5S", "5S"}}, invalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := e.in(t)
			key := unique("bad")
			header := e.header(key)
			for name, values := range tt.header {
				header[name] = values
			}
			got := e.rest(http.MethodPost, tt.path, header, body)
			got.check(t, overREST, tt.want)
			if strings.HasPrefix(tt.name, "Grpc-Timeout") && (len(got.Violations) != 1 || !strings.HasPrefix(got.Violations[0], "Grpc-Timeout: ")) {
				t.Errorf("violations: %q, want one that names Grpc-Timeout", got.Violations)
			}
			e.untouched(key)
		})
	}
}

// A body whose length is not announced is cut off too.
func TestABodyWithoutALengthIsBounded(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	key := unique("chunked")
	body := io.MultiReader(strings.NewReader(`{"description":"`), bytes.NewReader(bytes.Repeat([]byte("x"), 2<<20)))
	resp, text := e.do(http.MethodPost, "/payments", e.header(key), body)
	var got outcome
	readProblem(t, resp, text, &got)
	if resp.StatusCode != http.StatusRequestEntityTooLarge || got.Reason != "REQUEST_TOO_LARGE" {
		t.Errorf("status %d, reason %s", resp.StatusCode, got.Reason)
	}
	e.untouched(key)
}

func TestBadKeysAreRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	invalid := tableRow{reason: "IDEMPOTENCY_KEY_INVALID", code: codes.InvalidArgument, http: 400, nextAction: fixRequest}
	tests := []struct {
		name string
		keys []string
		over []face
	}{
		{"empty", []string{""}, faces},
		{"256 characters", []string{strings.Repeat("k", 256)}, faces},
		{"sent twice", []string{"key-one-of-two", "key-two-of-two"}, faces},
		{"sent twice, the same", []string{"key-the-same", "key-the-same"}, faces},
		{"joined by a proxy", []string{"key-one-joined, key-two-joined"}, faces},
		{"a space", []string{"key with spaces"}, faces},
		{"case 07 quoted, with parameters", []string{`"quoted-key";p=1`}, faces},
		{"quoted, not closed", []string{`"quoted-key`}, faces},
		{"quoted and empty", []string{`""`}, faces},
		{"not ASCII", []string{"kéy-not-ascii"}, []face{overREST}}, // gRPC's text metadata can't hold it
	}
	for _, tt := range tests {
		for _, f := range tt.over {
			t.Run(string(f)+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				e := e.in(t)
				got := e.send(f, sending{keys: tt.keys, message: purchase("o-bad-key")})
				got.check(t, f, invalid)
				e.untouched(tt.keys[0])
			})
		}
	}
}

func TestBadAPIKeysAreRefusedBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	_, _, revoked := e.revokedKey()
	want := tableRow{reason: "UNAUTHENTICATED", code: codes.Unauthenticated, http: 401, nextAction: fixRequest}
	bad := purchase("o")
	bad.Amount = -1 // who is not known does not learn what is wrong
	for name, key := range map[string]string{
		"none": "none", "wrong": "sk_test_" + strings.Repeat("A", 43), "another scheme of key": "pk_test_12345678",
		"revoked": revoked, "long": "sk_test_" + strings.Repeat("A", 500),
	} {
		for _, f := range faces {
			t.Run(string(f)+" "+name, func(t *testing.T) {
				t.Parallel()
				e := e.in(t)
				idem := unique("anon")
				got := e.send(f, sending{apiKey: key, keys: []string{idem}, message: bad})
				got.check(t, f, want)
				e.untouched(idem)
			})
		}
	}
	t.Run("over REST not even a broken body is told", func(t *testing.T) {
		t.Parallel()
		got := e.in(t).rest(http.MethodPost, "/payments", http.Header{"Content-Type": {"text/plain"}}, "{")
		got.check(t, overREST, want)
	})
	t.Run("the scheme's case is free", func(t *testing.T) {
		t.Parallel()
		got := e.in(t).rest(http.MethodGet, "/payments", http.Header{"Authorization": {"bearer " + e.apiKey}}, "")
		if got.HTTP != http.StatusOK {
			t.Errorf("status %d", got.HTTP)
		}
	})
	t.Run("two keys are none", func(t *testing.T) {
		t.Parallel()
		got := e.in(t).rest(http.MethodGet, "/payments", http.Header{"Authorization": {"Bearer " + e.apiKey, "Bearer " + e.apiKey}}, "")
		got.check(t, overREST, want)
	})
}

func TestBadReadsAreRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	tests := []struct {
		path      string
		http      int
		reason    string
		violation string
	}{
		{"/payments/pay_1", 400, "REQUEST_INVALID", "id: does not match regex pattern `^pay_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`"},
		{"/payments/pay_1%2Fx", 404, "NOT_FOUND", ""},
		{"/payments/", 404, "NOT_FOUND", ""},
		{"/payments/pay_01998a3e-7c1d-7f2a-8b3c-0123456789ab?id=x", 400, "REQUEST_INVALID", "id: there is no such field"},
		{"/payments?page_size=-1", 400, "REQUEST_INVALID", "page_size: must be greater than or equal to 0"},
		{"/payments?page_size=many", 400, "REQUEST_INVALID", "page_size: must be a whole number within 32 bits"},
		{"/payments?page_size=1e1", 400, "REQUEST_INVALID", "page_size: must be a whole number within 32 bits"},
		{"/payments?page_size=1.0", 400, "REQUEST_INVALID", "page_size: must be a whole number within 32 bits"},
		{"/payments?page_size=2147483648", 400, "REQUEST_INVALID", "page_size: must be a whole number within 32 bits"},
		{"/payments?page_size=1&page_size=2", 400, "REQUEST_INVALID", "page_size: stands more than once"},
		{"/payments?page_size=1&pageSize=2", 400, "REQUEST_INVALID", "page_size: stands more than once"},
		{"/payments?order=o-1", 400, "REQUEST_INVALID", "order: there is no such field"},
		{"/payments?page_token=x", 400, "REQUEST_INVALID",
			"page_token: is not a page token of this list: send next_page_token as it came, with the same order_id"},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			t.Parallel()
			got := e.in(t).rest(http.MethodGet, tt.path, e.header(""), "")
			got.check(t, overREST, tableRow{reason: tt.reason, http: tt.http, nextAction: fixRequest})
			if v := strings.Join(got.Violations, "|"); v != tt.violation {
				t.Errorf("violations %q, want %q", v, tt.violation)
			}
		})
	}
}

// rawCodec sends bytes as they are, as a client with another contract would.
type rawCodec struct{ encoding.CodecV2 }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (rawCodec) Unmarshal(mem.BufferSlice, any) error { return nil }
func (rawCodec) Name() string                         { return "proto" }

func TestBadMessagesOverGRPCAreRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	valid, err := proto.Marshal(purchase("o-raw"))
	if err != nil {
		t.Fatal(err)
	}
	invalid := tableRow{reason: "REQUEST_INVALID", code: codes.InvalidArgument, nextAction: fixRequest}
	tests := []struct {
		name       string
		method     string
		body       []byte
		noKey      bool
		want       tableRow
		violations []string
	}{
		{"case 21 an unknown field", "CreatePayment", protowire.AppendVarint(protowire.AppendTag(valid, 99, protowire.VarintType), 1), false,
			invalid, []string{"99: there is no such field"}},
		{"bytes that are no message", "CreatePayment", []byte{0xff, 0xff}, false, invalid, nil},
		{"a string that is no UTF-8", "CreatePayment", protowire.AppendString(protowire.AppendTag(valid, 5, protowire.BytesType), "\xff"), false,
			invalid, nil},
		{"bytes that are no message, from a stranger", "CreatePayment", []byte{0xff, 0xff}, true,
			tableRow{reason: "UNAUTHENTICATED", code: codes.Unauthenticated, nextAction: fixRequest}, nil},
		{"a method that there is not", "DeletePayment", nil, false,
			tableRow{reason: "NOT_FOUND", code: codes.Unimplemented, nextAction: fixRequest}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := e.in(t)
			key := unique("rawgrpc")
			mustNotBeLogged(key)
			ctx := metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", key)
			if !tt.noKey {
				ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+e.apiKey)
			}
			err := e.conn.Invoke(ctx, "/payments.v1.PaymentService/"+tt.method, tt.body, new(paymentsv1.Payment), grpc.ForceCodecV2(rawCodec{}))
			var got outcome
			fromStatus(status.Convert(err), &got)
			got.check(t, overGRPC, tt.want)
			if diff := cmp.Diff(tt.violations, got.Violations); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
			e.untouched(key)
		})
	}
}

// What the gateway and the inner server tell each other counts for nothing when it comes from outside.
func TestPrivateMetadataFromOutsideIsIgnored(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	forged := map[string]string{
		"chargeonce-idempotency-key-bin": "forged-by-metadata", "chargeonce-deadline": "1", "chargeonce-prefer-bin": "wait=1",
		"chargeonce-body-bin": "{}", "chargeonce-http-status": "500",
	}
	t.Run("gRPC", func(t *testing.T) {
		t.Parallel()
		ctx := metadata.NewOutgoingContext(t.Context(), metadata.New(forged))
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+e.apiKey)
		_, err := e.client.CreatePayment(ctx, purchase("forged"))
		var got outcome
		fromStatus(status.Convert(err), &got)
		got.check(t, overGRPC, tableRow{reason: "IDEMPOTENCY_KEY_MISSING", code: codes.InvalidArgument, nextAction: fixRequest})
	})
	t.Run("REST", func(t *testing.T) {
		t.Parallel()
		e := e.in(t)
		header := e.header(unique("forged"))
		for name, value := range forged {
			header.Set(name, value)
			header.Set("Grpc-Metadata-"+name, value)
		}
		got := e.rest(http.MethodPost, "/payments", header, `{"order_id":"o-f","amount":1,"currency":"EUR","payment_method":"tok_visa"}`)
		if got.HTTP != http.StatusCreated {
			t.Errorf("status %d: %s", got.HTTP, got.Body)
		}
	})
}
