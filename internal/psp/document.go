package psp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// operation is one of the calls of the wire contract. It stands in metrics and spans.
type operation string

const (
	opCharge    operation = "charge"
	opLookUp    operation = "look_up"
	opCancel    operation = "cancel"
	opGet       operation = "get"
	opStatement operation = "statement"
)

// document is what a body says, in the terms of the wire contract, before anyone decides what follows from it.
type document struct {
	// says tells the bodies of one operation and status apart: "charge:<status>" for a charge, the type of an error, the
	// result of a look-up ("charged:<status>" with the charge's), or "page".
	says   string
	keyed  bool // the body names the key that it is about beside what it says, in key; a bare charge does not
	key    string
	code   string // the PSP's decline, rejection or failure code
	charge *Charge
	page   Page
}

// readDocument reads the body of an answer to op. An error means that the body is none of the contract's.
func readDocument(op operation, status int, body []byte) (document, error) {
	switch {
	case status < http.StatusOK || status >= http.StatusMultipleChoices:
		return readError(body)
	case op == opCharge || op == opGet:
		ch, err := parseCharge(body)
		if err != nil {
			return document{}, err
		}
		return document{says: "charge:" + ch.Status, code: ch.FailureCode, charge: &ch}, nil
	case op == opLookUp || op == opCancel:
		return readByKey(body)
	default:
		page, err := readPage(body)
		return document{says: "page", page: page}, err
	}
}

// readError reads {"error": {"type", "code", "idempotency_key"}}.
func readError(body []byte) (document, error) {
	outer, err := readObject(body)
	if err != nil {
		return document{}, err
	}
	o, err := readObject(outer.get("error"))
	if err != nil {
		return document{}, fmt.Errorf("error: %w", err)
	}
	d := document{keyed: true}
	var errs [3]error
	d.says, errs[0] = o.text("type")
	d.code, errs[1] = o.text("code")
	d.key, errs[2] = o.text("idempotency_key")
	return d, errors.Join(errs[:]...)
}

// readByKey reads the answer to a look-up by key or a technical cancel: {"idempotency_key", "result"} and what belongs to
// the result.
func readByKey(body []byte) (document, error) {
	o, err := readObject(body)
	if err != nil {
		return document{}, err
	}
	key, err1 := o.text("idempotency_key")
	result, err2 := o.text("result")
	if err := errors.Join(err1, err2); err != nil {
		return document{}, err
	}
	d := document{says: result, keyed: true, key: key}
	switch result {
	case "charged":
		ch, err := parseCharge(o.get("charge"))
		if err != nil {
			return document{}, fmt.Errorf("charge: %w", err)
		}
		d.says, d.code, d.charge = "charged:"+ch.Status, ch.FailureCode, &ch
	case "declined", "rejected":
		inner, err := readError(body)
		if err != nil {
			return document{}, err
		}
		if inner.key != "" && inner.key != key {
			return document{}, errors.New("the error names another key than the answer")
		}
		d.says, d.code = result+":"+inner.says, inner.code
	}
	return d, nil
}

// readPage reads {"data": [charge…], "next_cursor"}. One charge that does not parse fails the page: a statement with a hole
// in it would pass for whole.
func readPage(body []byte) (Page, error) {
	o, err := readObject(body)
	if err != nil {
		return Page{}, err
	}
	next, err := o.text("next_cursor")
	if err != nil {
		return Page{}, err
	}
	var data []json.RawMessage
	if err := json.Unmarshal(o.get("data"), &data); err != nil || data == nil {
		return Page{}, errors.New("data: not an array")
	}
	page := Page{Charges: make([]Charge, len(data)), NextCursor: next}
	for i, raw := range data {
		if page.Charges[i], err = parseCharge(raw); err != nil {
			return Page{}, fmt.Errorf("data[%d]: %w", i, err)
		}
	}
	return page, nil
}
