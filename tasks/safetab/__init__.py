"""What the two SafeTabs share: population groups, their levels, domain, exact counts, coterminous regions, tables."""
