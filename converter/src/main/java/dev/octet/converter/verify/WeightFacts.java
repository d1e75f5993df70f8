package dev.octet.converter.verify;

/** What was found in the values of one weight. */
record WeightFacts(String name) {}
