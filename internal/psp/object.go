package psp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// object is a JSON object by its exact member names. encoding/json would match names without regard to case, take the
// last of two equal ones, and read null into a number as 0: each a way to read an amount that nobody wrote.
type object []member

type member struct {
	name  string
	value json.RawMessage
}

// get returns the member's value, nil if there is none.
func (o object) get(name string) json.RawMessage {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// maxMembers is far above what any object of the contract has. It keeps the look for a name that stands twice cheap.
const maxMembers = 256

// readObject reads exactly one JSON object, with nothing after it and no name twice. It splits the bytes by itself, once
// encoding/json has found them valid: a Decoder's tokens cost six times as much, and an answer of the PSP is read per payment.
func readObject(raw []byte) (object, error) {
	if !json.Valid(raw) {
		return nil, errors.New("not JSON, or more than one value")
	}
	s := scanner{raw: raw}
	if s.next() != '{' {
		return nil, errors.New("not a JSON object")
	}
	s.at++
	o := make(object, 0, 8)
	for s.next() != '}' {
		name, err := unquote(s.value())
		if err != nil {
			return nil, err
		}
		if len(o) == maxMembers {
			return nil, fmt.Errorf("more than %d members", maxMembers)
		}
		if o.get(name) != nil {
			return nil, fmt.Errorf("member %q stands twice", name)
		}
		s.next() // the colon
		s.at++
		s.next()
		o = append(o, member{name, s.value()})
		if s.next() == ',' {
			s.at++
		}
	}
	return o, nil
}

// scanner goes through JSON that is known to be valid, so it looks for the ends of values and for nothing else.
type scanner struct {
	raw []byte
	at  int
}

// next skips white space and returns the byte that stands there.
func (s *scanner) next() byte {
	for {
		switch c := s.raw[s.at]; c {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return c
		}
	}
}

// value returns the value that begins here, and goes past it.
func (s *scanner) value() []byte {
	from := s.at
	for depth := 0; s.at < len(s.raw); {
		switch s.raw[s.at] {
		case '"':
			s.skipString()
		case '{', '[':
			depth++
			s.at++
			continue
		case '}', ']':
			if depth == 0 { // of what the value stands in: it was a number, or a word
				return s.raw[from:s.at]
			}
			depth--
			s.at++
		case ',', ' ', '\t', '\n', '\r', ':':
			if depth == 0 {
				return s.raw[from:s.at]
			}
			s.at++
			continue
		default:
			s.at++
			continue
		}
		if depth == 0 {
			break
		}
	}
	return s.raw[from:s.at]
}

func (s *scanner) skipString() {
	for s.at++; s.raw[s.at] != '"'; s.at++ {
		if s.raw[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
}

// unquote reads a JSON string.
func unquote(raw []byte) (string, error) {
	if n := len(raw); n >= 2 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw[1 : n-1]), nil
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// text reads a string; an absent one, or null, is "".
func (o object) text(name string) (string, error) {
	raw := o.get(name)
	if isNull(raw) {
		return "", nil
	}
	s, err := unquote(raw)
	if err != nil {
		return "", fmt.Errorf("%s: not a string", name)
	}
	return s, nil
}

// integer reads a number that must be there, and be written as an integer: 1999, not 1999.0 or 2e3.
func (o object) integer(name string) (int64, error) {
	n, err := strconv.ParseInt(string(o.get(name)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: not an integer", name)
	}
	return n, nil
}

// time reads an RFC 3339 time; an absent one, or null, is the zero time.
func (o object) time(name string) (time.Time, error) {
	s, err := o.text(name)
	if err != nil || s == "" {
		return time.Time{}, err
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: not an RFC 3339 time", name)
	}
	return t.UTC(), nil
}
