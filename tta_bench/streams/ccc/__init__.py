"""The scenario `ccc`: clean images under pairs of corruptions that change smoothly."""
