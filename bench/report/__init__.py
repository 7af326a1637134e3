"""How figures are measured, reported, saved, compared and drawn; `bench` says what each file does."""
