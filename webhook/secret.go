package webhook

import "chargeonce/internal/telemetry"

// CheckSecret returns what is wrong with a signing secret, nil if [New] takes it. The error tells nothing of the secret.
func CheckSecret(s telemetry.Secret) error {
	_, err := signer(s)
	return err
}
