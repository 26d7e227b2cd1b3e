package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// member is one name and value, as a JSON object or a query string has them.
type member struct {
	name  string
	value json.RawMessage
}

// decodeBody reads a JSON body into m, strictly: one object, no member twice (RFC 8259 leaves open which of them counts, and a proxy may
// have checked the other), no member that the message does not have. Field names are taken in both of protobuf's spellings,
// order_id and orderId, which are one field.
//
// Integers may be spelt as protobuf's JSON form allows, and all these are one request: 100, "100", 1e2, 100.0. A fraction, or a
// number out of range, is refused.
//
// The error is a *problem that names the fields at fault and shows none of their values.
func decodeBody(body []byte, m proto.Message) error {
	// protojson is as strict, but stops at the first fault and words it anew in every build.
	if err := protojson.Unmarshal(body, m); err != nil {
		return bodyFault(body, m)
	}
	return nil
}

// bodyFault says what is wrong with a body that could not be read into m.
func bodyFault(body []byte, m proto.Message) error {
	members, err := objectMembers(body)
	if err != nil {
		return err
	}
	if found := faults(members, m); len(found) > 0 {
		return invalid("The body does not fit this method.", found...)
	}
	return badJSON // members that are sound one by one make a sound whole; encoding/json takes some invalid UTF-8 more
}

// decodeQuery reads query parameters into m by the rules of [decodeBody], except that a number is digits and a sign, and nothing else:
// the gateway reads it so.
func decodeQuery(query string, m proto.Message) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return invalid("The query string is malformed.")
	}
	fields := m.ProtoReflect().Descriptor().Fields()
	var members []member
	for name, list := range values {
		for _, v := range list {
			text, err := json.Marshal(v)
			if err != nil {
				return fmt.Errorf("server: query parameter: %w", err)
			}
			if f := fieldOf(fields, name); f != nil && f.Kind() != protoreflect.StringKind && !digits.MatchString(v) {
				text = []byte("[]") // of the wrong kind for every field
			}
			members = append(members, member{name, text})
		}
	}
	slices.SortFunc(members, func(a, b member) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
	if found := faults(members, m); len(found) > 0 {
		return invalid("The query parameters do not fit this method.", found...)
	}
	return nil
}

var (
	badJSON   = invalid("The body is not valid JSON.")
	noObject  = invalid("The body must be one JSON object.")
	emptyBody = invalid("The body is empty; send a JSON object.")
)

// objectMembers splits a JSON object into its members, in their order, those that stand twice too.
func objectMembers(body []byte) ([]member, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, emptyBody
	}
	if !json.Valid(body) {
		return nil, badJSON
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	open, err := dec.Token()
	if err != nil {
		return nil, badJSON
	}
	if open != json.Delim('{') {
		return nil, noObject
	}
	var members []member
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, badJSON
		}
		text, ok := name.(string)
		if !ok {
			return nil, badJSON
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, badJSON
		}
		members = append(members, member{text, value})
	}
	if _, err := dec.Token(); err != nil { // the closing brace
		return nil, badJSON
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, noObject
	}
	return members, nil
}

// faults finds the members that the message does not have, that stand twice, or whose value is of the wrong kind.
func faults(members []member, m proto.Message) []violation {
	fields := m.ProtoReflect().Descriptor().Fields()
	seen := map[protoreflect.FieldNumber]bool{}
	var found []violation
	for _, mem := range members {
		f := fieldOf(fields, mem.name)
		switch {
		case f == nil:
			found = append(found, violation{showable(mem.name), unknownField})
			continue
		case seen[f.Number()]:
			found = append(found, violation{string(f.Name()), "stands more than once"})
			continue
		}
		seen[f.Number()] = true
		// A message of its own kind, with this member alone: if it can't be read, this member is why.
		single := slices.Concat([]byte(`{"`), []byte(f.Name()), []byte(`":`), mem.value, []byte(`}`))
		if err := protojson.Unmarshal(single, m.ProtoReflect().New().Interface()); err != nil {
			found = append(found, violation{string(f.Name()), "must be " + kindName(f)})
		}
	}
	return found
}

// digits is a number as a query has it.
var digits = regexp.MustCompile(`^-?[0-9]+$`)

// fieldOf finds a field by either of protobuf's spellings; nil if there is none.
func fieldOf(fields protoreflect.FieldDescriptors, name string) protoreflect.FieldDescriptor {
	if f := fields.ByName(protoreflect.Name(name)); f != nil {
		return f
	}
	return fields.ByJSONName(name)
}

func kindName(f protoreflect.FieldDescriptor) string {
	switch f.Kind() {
	case protoreflect.StringKind:
		return "a string of valid UTF-8"
	case protoreflect.Int64Kind:
		return "a whole number within 64 bits"
	case protoreflect.Int32Kind:
		return "a whole number within 32 bits"
	}
	return "of type " + f.Kind().String()
}
