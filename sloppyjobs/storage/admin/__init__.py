"""What operators do: the audit trail, retries of a cause, forms and logins."""
