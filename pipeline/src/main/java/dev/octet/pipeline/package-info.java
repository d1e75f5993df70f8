/**
 * What each verb does, as a library: one class for each verb with one call, which takes a request (a record: what to do) and a {@link
 * dev.octet.pipeline.Job} (how: threads, overwriting, who hears of the progress), and gives back a result (a record: numbers and names, no
 * memory that somebody has to close). It is the only module above both {@code converter} and {@code trainer}; {@code cli} parses, calls and
 * prints. Nothing here prints or knows a command line.
 *
 * <p>Messages of exceptions name an option as the command line spells it: {@code --calibration} is the component of a request that means
 * the same.
 */
@NullMarked
package dev.octet.pipeline;

import org.jspecify.annotations.NullMarked;
