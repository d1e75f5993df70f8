/** What is kept between forward and backward, and what backward computes again: passes from a program to a program. */
@NullMarked
package dev.octet.trainer.activation;

import org.jspecify.annotations.NullMarked;
