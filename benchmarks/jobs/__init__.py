"""Traces of jobs of many ranks, which no program ran: what is known of them, and questions."""
