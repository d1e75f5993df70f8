/** The entry points of conversion: one public call per task of a user. */
@NullMarked
package dev.octet.converter;

import org.jspecify.annotations.NullMarked;
