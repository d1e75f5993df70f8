/**
 * Texts continued by a model, token by token. In: a model opened for generation, tokens of a prompt, how the next token is chosen. Out: the
 * tokens that follow.
 */
@NullMarked
package dev.octet.converter.generate;

import org.jspecify.annotations.NullMarked;
