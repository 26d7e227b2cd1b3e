package server

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"chargeonce/internal/telemetry"
)

// pages makes and reads page tokens (AIP-158): the last payment id of a page, and a MAC over it and the list that it belongs
// to. So a token serves its own caller and filter alone, and what is in it was put there by us.
type pages struct{ key []byte }

// listing is what a token is good for.
type listing struct {
	userID  int64
	orderID string
}

// macSize is the length of the MAC in a token: HMAC-SHA-256 truncated to 128 bits (RFC 2104 §5).
const macSize = 16

// newPages derives the MAC's key from the secret. Servers with the same secret take each other's tokens; without a secret, a
// server takes its own only.
func newPages(secret telemetry.Secret) pages {
	if secret == "" {
		key := make([]byte, sha256.Size)
		rand.Read(key) // never fails (crypto/rand)
		return pages{key}
	}
	mac := hmac.New(sha256.New, []byte(secret.Reveal()))
	mac.Write([]byte("chargeonce page token v1")) // hash.Hash.Write never fails
	return pages{mac.Sum(nil)}
}

func (p pages) mac(l listing, lastID string) []byte {
	mac := hmac.New(sha256.New, p.key)
	var id [8]byte
	binary.BigEndian.PutUint64(id[:], uint64(l.userID))
	mac.Write(id[:])
	mac.Write([]byte(l.orderID))
	mac.Write([]byte{0}) // in neither an order id nor a payment id, so nothing can move from one to the other
	mac.Write([]byte(lastID))
	return mac.Sum(nil)[:macSize]
}

// seal returns the token of the page after lastID.
func (p pages) seal(l listing, lastID string) string {
	return base64.RawURLEncoding.EncodeToString(append(p.mac(l, lastID), lastID...))
}

// open returns the id after which the token's page begins, empty for the first page. A token that was not sealed for this
// listing is a *problem.
func (p pages) open(l listing, token string) (string, error) {
	if token == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err == nil && len(raw) > macSize {
		lastID := string(raw[macSize:])
		if hmac.Equal(raw[:macSize], p.mac(l, lastID)) {
			return lastID, nil
		}
	}
	const what = "is not a page token of this list: send next_page_token as it came, with the same order_id"
	return "", invalid("The page_token "+what+".", violation{"page_token", what})
}
