package main

import (
	"context"
	"time"

	"chargeonce/internal/certs"
	"chargeonce/webhook"
)

func (d *doctor) webhookSecret(context.Context) finding {
	secrets, err := d.Webhook.secrets()
	if err != nil {
		return fault("mend the file, or set one of the two", "%v", err)
	}
	if len(secrets) == 0 {
		return doubt("set CHARGEONCE_WEBHOOK_SECRETS or --webhook-secrets-file", "none: the PSP's events are not received, and pending charges wait for reconciliation")
	}
	demos := 0
	for i, s := range secrets {
		if err := webhook.CheckSecret(s); err != nil {
			return fault("use whsec_ and the base64 of 24 to 64 random bytes, as the PSP shows it", "secret %d of %d: %v", i+1, len(secrets), err)
		}
		if demoWebhookKey.is(s) {
			demos++
		}
	}
	if demos > 0 {
		return doubt("use a secret of your own", "it is the demo's: everybody can sign events with it")
	}
	return fine("%d, and they decode", len(secrets))
}

// leastPageKey is the length from which a page token key is long enough not to be guessed, if it was drawn at random.
const leastPageKey = 16

func (d *doctor) pageTokenKey(context.Context) finding {
	const fix = "set CHARGEONCE_PAGE_TOKEN_KEY or --page-token-key-file to 32 random bytes in base64, the same on all servers"
	key, err := d.PageToken.key()
	switch {
	case err != nil:
		return fault("mend the file, or set one of the two", "%v", err)
	case key == "":
		return doubt(fix, "none: a page token is good for one server alone, until it restarts")
	case demoPageKey.is(key):
		return doubt(fix, "it is the demo's, which everybody knows")
	case len(key.Reveal()) < leastPageKey:
		return doubt(fix, "it has fewer than %d characters, and could be guessed", leastPageKey)
	}
	return fine("set")
}

// certificates checks the files that the flags name.
func (d *doctor) certificates(ctx context.Context) {
	d.check(ctx, "tls", func(context.Context) finding {
		store, err := d.TLS.store(quiet)
		if store == nil && err == nil {
			return fine("none: gRPC and REST speak in clear, so TLS has to end right before them")
		}
		return d.judgeCerts(store, err)
	})
	for _, of := range []struct {
		name, flags string
		files       certs.Files
	}{{"mysql certificates", "--mysql-tls-", d.mysql.certFiles()}, {"psp certificates", "--psp-tls-", d.PSP.certFiles()}} {
		if of.files.Empty() {
			continue
		}
		d.check(ctx, of.name, func(context.Context) finding { return d.judgeCerts(openCerts(of.flags, of.files, quiet)) })
	}
}

// judgeCerts finds the certificate that ends first. Renewals are due when a third of a certificate's life is left; with less than a
// quarter, one was missed.
func (d *doctor) judgeCerts(store *certs.Store, err error) finding {
	const fix = "renew it; the running servers take the new file by themselves"
	if err != nil {
		return fault("mend the files", "%v", err)
	}
	now := d.now()
	var first time.Time
	for _, c := range store.Certificates() {
		name := c.Subject.String()
		left := c.NotAfter.Sub(now)
		switch {
		case now.Before(c.NotBefore):
			return fault("see this machine's clock, or use the one that is valid now", "%s is not valid before %s", name, c.NotBefore.Format(time.RFC3339))
		case left <= 0:
			return fault(fix, "%s ended %s", name, c.NotAfter.Format(time.RFC3339))
		case left < c.NotAfter.Sub(c.NotBefore)/4:
			return doubt(fix, "%s ends %s, and less than a quarter of its life is left", name, c.NotAfter.Format(time.RFC3339))
		}
		if first.IsZero() || c.NotAfter.Before(first) {
			first = c.NotAfter
		}
	}
	return fine("the first to end does so %s", first.Format(time.RFC3339))
}
