package gatewaysim

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const secretPrefix = "whsec_"

// signer makes signatures of Standard Webhooks with one secret.
type signer struct{ key []byte }

// newSigners reads the secrets. It names a bad one by its place, never by its characters.
func newSigners(secrets []string) ([]signer, error) {
	var signers []signer
	for i, secret := range secrets {
		text, ok := strings.CutPrefix(secret, secretPrefix)
		key, err := base64.StdEncoding.DecodeString(text)
		if !ok || err != nil || len(key) < 24 || len(key) > 64 {
			return nil, fmt.Errorf("gateway-sim: webhook secret %d is not %q and base64 of 24 to 64 bytes", i, secretPrefix)
		}
		signers = append(signers, signer{key})
	}
	if len(signers) == 0 {
		return nil, errors.New("gateway-sim: there is no webhook secret")
	}
	return signers, nil
}

// strangerSigner signs with a secret that nobody has.
func strangerSigner() signer { return signer{[]byte(rand.Text())} }

// sign returns "v1," and the base64 of the HMAC-SHA256 of id, time and payload.
func (s signer) sign(id string, at time.Time, payload []byte) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
	mac.Write(payload)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// signature returns the header webhook-signature: one signature per signer, separated by spaces.
func signature(signers []signer, id string, at time.Time, payload []byte) string {
	var all []string
	for _, s := range signers {
		all = append(all, s.sign(id, at, payload))
	}
	return strings.Join(all, " ")
}
