/**
 * A conversion as one HTML file: {@link dev.octet.converter.report.ReportData} in, a page out that works offline, on a phone and
 * in the dark. Knows nothing of models; whoever converts fills the data.
 */
@NullMarked
package dev.octet.converter.report;

import org.jspecify.annotations.NullMarked;
