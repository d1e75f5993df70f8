/** Fetches the model of the quickstart and its tokenizer, once, and checks their digests. For {@code dev.octet.pipeline}. */
@NullMarked
package dev.octet.pipeline.quickstart;

import org.jspecify.annotations.NullMarked;
