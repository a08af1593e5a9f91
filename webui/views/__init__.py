"""The pages. Each module declares its routes with the permissions that they need."""
