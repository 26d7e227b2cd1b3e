package client

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	paymentsv1 "chargeonce/api/payments/v1"
)

// Key is an idempotency key: 1 to 255 printable ASCII characters. Whoever holds it, and the API key, holds the purchase.
type Key string

// maxKeyLength is the most characters that the service takes.
const maxKeyLength = 255

// NewKey mints a key of 130 random bits.
func NewKey() Key { return Key(rand.Text()) }

// check refuses what the service would refuse, before anything is sent.
func (k Key) check() error {
	if k == "" {
		return errors.New("client: the intent has no idempotency key; make it with NewIntent")
	}
	if len(k) > maxKeyLength {
		return fmt.Errorf("client: the idempotency key has %d characters; at most %d are allowed", len(k), maxKeyLength)
	}
	for _, c := range []byte(k) {
		if c < 0x20 || c > 0x7e {
			return fmt.Errorf("client: the idempotency key has the byte 0x%02x; only printable ASCII is allowed", c)
		}
	}
	return nil
}

// wire gives the key as an RFC 8941 string, the form that can hold every key.
func (k Key) wire() string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(string(k)) + `"`
}

// Intent is one purchase that somebody wants, with the one key under which it is sent however often. Neither changes once it
// has been paid: another amount, or another try after a decline, is another intent.
type Intent struct {
	Key     Key
	Request *paymentsv1.CreatePaymentRequest
}

// NewIntent mints the key for a purchase. The request is copied.
func NewIntent(req *paymentsv1.CreatePaymentRequest) Intent {
	return Intent{Key: NewKey(), Request: proto.CloneOf(req)}
}

func (i Intent) check() error {
	if i.Request == nil {
		return errors.New("client: the intent has no request")
	}
	return i.Key.check()
}

// storedIntent is an intent's JSON form.
type storedIntent struct {
	Key     Key             `json:"idempotency_key"`
	Request json.RawMessage `json:"request"`
}

// MarshalJSON gives the form in which an intent is kept across a restart.
func (i Intent) MarshalJSON() ([]byte, error) {
	if err := i.check(); err != nil {
		return nil, err
	}
	req, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(i.Request)
	if err != nil {
		return nil, fmt.Errorf("client: request as JSON: %w", err)
	}
	return json.Marshal(storedIntent{Key: i.Key, Request: req})
}

// UnmarshalJSON reads what [Intent.MarshalJSON] wrote. A field that this build does not know is an error: without it the
// request would be another one under the same key.
func (i *Intent) UnmarshalJSON(text []byte) error {
	var stored storedIntent
	if err := json.Unmarshal(text, &stored); err != nil {
		return fmt.Errorf("client: kept intent: %w", err)
	}
	read := Intent{Key: stored.Key, Request: &paymentsv1.CreatePaymentRequest{}}
	if err := protojson.Unmarshal(stored.Request, read.Request); err != nil {
		return fmt.Errorf("client: kept intent: %w", err)
	}
	if err := read.Key.check(); err != nil {
		return err
	}
	*i = read
	return nil
}
