"""Policies: acting, cards, evaluation, shields."""
