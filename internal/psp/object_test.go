package psp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// membersByDecoder reads an object by encoding/json's tokens: slowly, and by nothing of ours.
func membersByDecoder(raw []byte) (map[string]string, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, errors.Join(errors.New("no object"), err)
	}
	o := map[string]string{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, ok := tok.(string)
		if _, twice := o[name]; twice || !ok {
			return nil, errors.New("a bad name")
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		o[name] = string(value)
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something stands after it")
	}
	return o, nil
}

func FuzzReadObjectSplitsAsEncodingJSONDoes(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` { } `, `{"a":1}`, `{"a" : "b" , "c":[1,{"d":"}"}],"e":{"f":[]}}`, `{"a\"b":"\\","\u0061":null}`, `{"a":1,"\u0061":2}`,
		`{"a":1}{"b":2}`, `[1]`, `"a"`, `{"a":-1.5e3,"b":true,"c":false,"d":"\ud800"}`, "{\"\xff\":\"\xfe\"}", "{\"\xff\":1,\"\xfe\":2}", `{"a":1,}`, `{"a"}`, ``, `null`,
		"{\n\t\"a\"\r:\n1\t}", `{"a":[[],[{}]],"b":{"c":{}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		want, wantErr := membersByDecoder(raw)
		if len(want) > maxMembers {
			wantErr = errors.New("too many members")
		}
		o, err := readObject(raw)
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("%q: %v, want %v", raw, err, wantErr)
		}
		if err != nil {
			return
		}
		got := map[string]string{}
		for _, m := range o {
			got[m.name] = string(m.value)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", raw, diff)
		}
	})
}

// An object as large as an answer may be, of nothing but names, is refused by their number: to compare each with all would take minutes.
func TestAnObjectOfTooManyMembersIsRefused(t *testing.T) {
	t.Parallel()
	object := func(members int) []byte {
		b := []byte("{")
		for i := range members {
			b = fmt.Appendf(b, `"%d":0,`, i)
		}
		return append(b[:len(b)-1], '}')
	}
	if o, err := readObject(object(maxMembers)); err != nil || len(o) != maxMembers {
		t.Errorf("%d members, %v", len(o), err)
	}
	if _, err := readObject(object(maxPageBody / 8)); err == nil {
		t.Error("no error")
	}
}

func BenchmarkParseCharge(b *testing.B) {
	raw := []byte(`{"id":"ch_01a22b3f","object":"charge","idempotency_key":"co_5f1d7a84db00d2fce00b31a7fc73224f","amount":1999,` +
		`"currency":"EUR","status":"succeeded","payment_method":"tok_visa","created_at":"2026-11-30T06:00:00.123Z",` +
		`"metadata":{"user_id":"7","payment_id":"pay_01998a3e-7c1d-7f2a-8b3c-0123456789ab","order_id":"o-1"}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseCharge(raw); err != nil {
			b.Fatal(err)
		}
	}
}
