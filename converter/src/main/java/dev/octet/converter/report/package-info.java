/**
 * Presents a conversion in one HTML file. In: {@link dev.octet.converter.report.ReportData}. Out: a page that works offline, on a phone and
 * in dark mode. Independent of models; the converter fills in the data.
 */
@NullMarked
package dev.octet.converter.report;

import org.jspecify.annotations.NullMarked;
