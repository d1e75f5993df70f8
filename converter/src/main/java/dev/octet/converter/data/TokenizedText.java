package dev.octet.converter.data;

/**
 * One text as tokens; all arrays have one length.
 *
 * @param ids of tokens
 * @param mask 1 for tokens of the text, 0 for padding
 * @param types 0 for a first sequence, 1 for a second
 */
record TokenizedText(long[] ids, long[] mask, long[] types) {}
