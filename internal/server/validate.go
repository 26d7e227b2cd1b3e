package server

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// validate holds a request against the contract's rules. It returns a *problem that names the fields at fault, and never
// their values: a card number must not come back, nor get into a log, because it was sent in the wrong place.
func validate(m proto.Message) error {
	if found := unknownFields(m.ProtoReflect(), ""); len(found) > 0 {
		return invalid("The request has fields that this method does not know.", found...)
	}
	err := protovalidate.Validate(m)
	if err == nil {
		return nil
	}
	var broken *protovalidate.ValidationError
	if !errors.As(err, &broken) {
		return fmt.Errorf("server: the rules can't be evaluated: %w", err)
	}
	var found []violation
	for _, v := range broken.Violations {
		found = append(found, violation{
			Field:       protovalidate.FieldPathString(v.Proto.GetField()),
			Description: v.Proto.GetMessage(),
		})
	}
	return invalid("The request breaks a rule of the contract.", found...)
}

// unknownFields finds the fields that were sent over gRPC and are not in the contract, at any depth.
func unknownFields(m protoreflect.Message, path string) []violation {
	var found []violation
	for raw := m.GetUnknown(); len(raw) > 0; {
		number, _, n := protowire.ConsumeField(raw)
		if n < 0 {
			break // can't be: what was unmarshalled is well-formed
		}
		found = append(found, violation{path + strconv.Itoa(int(number)), unknownField})
		raw = raw[n:]
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		below := path + string(f.Name()) + "."
		switch {
		case f.IsMap() || f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				found = append(found, unknownFields(v.List().Get(i).Message(), below)...)
			}
		default:
			found = append(found, unknownFields(v.Message(), below)...)
		}
		return true
	})
	return found
}

const unknownField = "there is no such field"

// looksLikeCard is the contract's own rule for what must never be shown.
var looksLikeCard = regexp.MustCompile(`[0-9]([ -]?[0-9]){12}`)

// showable returns a name that came from outside as it may be told back: short, plain, and nothing like a card number.
func showable(name string) string {
	if len(name) == 0 || len(name) > 64 || looksLikeCard.MatchString(name) {
		return "(a name that is not shown)"
	}
	for _, c := range []byte(name) {
		if c < 0x20 || c > 0x7e {
			return "(a name that is not shown)"
		}
	}
	return name
}
