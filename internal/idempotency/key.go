package idempotency

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// MaxKeyLength is the most characters a key may have, as with Stripe and the IETF draft.
const MaxKeyLength = 255

// Key is a client's idempotency key, its quotes and escapes undone: 1 to [MaxKeyLength] printable ASCII characters, compared
// as bytes. The zero value is no key.
type Key struct{ s string }

// String returns the key's characters. It is for the database; a log shows [Key.Hint] instead, since a key is as good as the
// purchase to anyone who holds the same API key.
func (k Key) String() string { return k.s }

// Hint names the key in logs without giving it away: the first 12 hex digits of its SHA-256.
func (k Key) Hint() string {
	sum := sha256.Sum256([]byte(k.s))
	return hex.EncodeToString(sum[:6])
}

// ErrNoKey says that the request carries no Idempotency-Key.
var ErrNoKey = errors.New("no Idempotency-Key: send 1 to 255 printable ASCII characters, one key per purchase intent")

// KeyError says why an Idempotency-Key is refused.
type KeyError struct{ Reason string }

func (e *KeyError) Error() string { return "Idempotency-Key " + e.Reason }

// ParseKey reads the values of the Idempotency-Key header (or gRPC metadata) of one request. A key is an RFC 8941 string in
// double quotes, with \" and \\ as its escapes and no parameters after it, or the bare characters without space, comma or
// double quote; both forms of the same characters are the same key. No value gives [ErrNoKey]. Two values are refused, and so
// is a comma in a bare key: a proxy may have joined two headers with it. Every refusal is a *[KeyError].
func ParseKey(values []string) (Key, error) {
	switch len(values) {
	case 0:
		return Key{}, ErrNoKey
	case 1:
	default:
		return Key{}, &KeyError{fmt.Sprintf("was sent %d times; send one", len(values))}
	}
	raw := strings.Trim(values[0], " \t") // optional white space around a field value (RFC 9110 §5.5)
	if raw == "" {
		return Key{}, &KeyError{"is empty; send 1 to 255 printable ASCII characters"}
	}
	parse := parseBare
	if raw[0] == '"' {
		parse = parseQuoted
	}
	s, err := parse(raw)
	if err != nil {
		return Key{}, err
	}
	switch {
	case s == "":
		return Key{}, &KeyError{"is empty; send 1 to 255 printable ASCII characters"}
	case len(s) > MaxKeyLength:
		return Key{}, &KeyError{fmt.Sprintf("has %d characters; at most %d are allowed", len(s), MaxKeyLength)}
	}
	return Key{s}, nil
}

func printable(c byte) bool { return c >= 0x20 && c <= 0x7e }

func parseBare(raw string) (string, error) {
	for i := range len(raw) {
		switch c := raw[i]; {
		case c == ',':
			return "", &KeyError{"has a comma: two headers joined by a proxy look like that; put the key in double quotes if the comma is its own"}
		case c == ' ' || c == '"':
			return "", &KeyError{fmt.Sprintf("has %q at position %d; put the key in double quotes (RFC 8941 string)", c, i+1)}
		case !printable(c):
			return "", &KeyError{fmt.Sprintf("has the byte 0x%02x at position %d; only printable ASCII is allowed", c, i+1)}
		}
	}
	return raw, nil
}

// parseQuoted follows RFC 8941 §4.2.5, and refuses whatever comes after the closing quote.
func parseQuoted(raw string) (string, error) {
	var b strings.Builder
	for i := 1; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '\\':
			i++
			if i == len(raw) || (raw[i] != '"' && raw[i] != '\\') {
				return "", &KeyError{`has a backslash that escapes neither " nor \`}
			}
			b.WriteByte(raw[i])
		case c == '"':
			if i != len(raw)-1 {
				return "", &KeyError{"has something after its closing quote; parameters and further values are not allowed"}
			}
			return b.String(), nil
		case !printable(c):
			return "", &KeyError{fmt.Sprintf("has the byte 0x%02x at position %d; only printable ASCII is allowed", c, i+1)}
		default:
			b.WriteByte(c)
		}
	}
	return "", &KeyError{"has no closing quote"}
}

// PSPKey derives the key that is passed on to the PSP: a function of the user and the client's key, and of nothing else. So every
// attempt, every take-over and even a claim made anew after a lost row sends the same one; two users never share one; and the
// PSP learns nothing from it. 64 hex digits.
func PSPKey(userID int64, key Key) string {
	h := sha256.New()
	h.Write([]byte("chargeonce psp key v1\x00")) // hash.Hash.Write never fails
	var id [8]byte
	binary.BigEndian.PutUint64(id[:], uint64(userID))
	h.Write(id[:])
	h.Write([]byte(key.s))
	return hex.EncodeToString(h.Sum(nil))
}
