package psp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// chargeKinds is what each status of a charge means.
var chargeKinds = map[string]Kind{
	"succeeded": Succeeded,
	"pending":   Pending,
	"failed":    Failed,
	"canceled":  Voided,
	"refunded":  Refunded,
}

// maxChargeID is the longest id of a charge that the payments table can hold.
const maxChargeID = 255

// ParseCharge reads a charge as the PSP writes it. It fails on anything that is not one JSON object with an id, an integer
// amount, a currency and a known status; on a member that stands in it twice; and on a malformed time. Unknown members are
// ignored, and names are compared as they are: "Amount" is not "amount". It does not say whether the charge is ours: a
// user_id that is no number of ours comes out as [ForeignUser].
func ParseCharge(raw []byte) (Charge, error) {
	ch, err := parseCharge(raw)
	if err != nil {
		return Charge{}, fmt.Errorf("psp: charge: %w", err)
	}
	return ch, nil
}

func parseCharge(raw []byte) (Charge, error) {
	o, err := readObject(raw)
	if err != nil {
		return Charge{}, err
	}
	var ch Charge
	var errs [8]error
	ch.ID, errs[0] = o.text("id")
	ch.IdempotencyKey, errs[1] = o.text("idempotency_key")
	ch.Amount, errs[2] = o.integer("amount")
	ch.Currency, errs[3] = o.text("currency")
	ch.Status, errs[4] = o.text("status")
	ch.FailureCode, errs[5] = o.text("failure_code")
	ch.CreatedAt, errs[6] = o.time("created_at")
	ch.Metadata, errs[7] = parseMetadata(o.get("metadata"))
	if err := errors.Join(errs[:]...); err != nil {
		return Charge{}, err
	}
	if _, known := chargeKinds[ch.Status]; !known {
		return Charge{}, fmt.Errorf("unknown status %q", ch.Status)
	}
	if ch.ID == "" || len(ch.ID) > maxChargeID || !isFieldValue(ch.ID) {
		return Charge{}, fmt.Errorf("id: want 1 to %d printable ASCII characters", maxChargeID)
	}
	if ch.Currency == "" {
		return Charge{}, errors.New("no currency")
	}
	return ch, nil
}

func parseMetadata(raw json.RawMessage) (Metadata, error) {
	if isNull(raw) {
		return Metadata{}, nil
	}
	o, err := readObject(raw)
	if err != nil {
		return Metadata{}, fmt.Errorf("metadata: %w", err)
	}
	user, err1 := o.text("user_id")
	payment, err2 := o.text("payment_id")
	order, err3 := o.text("order_id")
	if err := errors.Join(err1, err2, err3); err != nil {
		return Metadata{}, fmt.Errorf("metadata: %w", err)
	}
	return Metadata{UserID: parseUserID(user), PaymentID: payment, OrderID: order}, nil
}

// parseUserID reads the form in which we send a user id, and no other: "042" was not written by us.
func parseUserID(s string) int64 {
	if s == "" {
		return 0
	}
	id, err := strconv.ParseInt(s, 10, 64)
	if err != nil || id <= 0 || strconv.FormatInt(id, 10) != s {
		return ForeignUser
	}
	return id
}
