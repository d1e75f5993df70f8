/**
 * Jinja templates of chats, rendered as transformers renders them ({@code apply_chat_template}: Jinja 3.1 in an immutable sandbox, {@code
 * trim_blocks}, {@code lstrip_blocks}, {@code break} and {@code continue}, {@code generation} blocks). In: the source of a template and
 * values. Out: text, and which of it lies in generation blocks. Templates come from strangers: they reach nothing but the values given,
 * and steps, depth and output are limited.
 */
@NullMarked
package dev.octet.converter.jinja;

import org.jspecify.annotations.NullMarked;
