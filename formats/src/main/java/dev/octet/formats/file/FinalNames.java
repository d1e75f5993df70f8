package dev.octet.formats.file;

import java.util.regex.Pattern;

/**
 * What unfinished files and folders will be called. Results are written under a hidden name and renamed when they are whole; users know
 * the name that they gave.
 */
public final class FinalNames {
    /** A part of a path up to its end: a separator, a quote, a comma, a colon with a blank, the end of the text. */
    private static final String END = "(?=[/\\\\',]|: |$)";

    /** {@code .octet-export-NAME}, with the folders of masters and results in it. */
    private static final Pattern EXPORT = Pattern.compile(
            "\\.octet-export-([^/\\\\']+?)(?:[/\\\\]masters|[/\\\\]made[/\\\\]\\1|[/\\\\]made|\\.lock)?" + END);

    /** {@code .NAME.part}, {@code .NAME.123-4.tmp}. */
    private static final Pattern FILE =
            Pattern.compile("(?<=^|[/\\\\' ])\\.([^/\\\\']+?)\\.(?:part|\\d+-\\d+\\.tmp)" + END);

    /** {@code NAME/.octet-new}. */
    private static final Pattern NEW = Pattern.compile("[/\\\\]\\.octet-new" + END);

    /** A graph that was written for ONNX Runtime to read. */
    private static final Pattern BUILT = Pattern.compile("[^ ']*octet-[a-z]+-\\d+-\\d+[/\\\\][^/\\\\ ',]+\\.onnx");

    private FinalNames() {}

    /** {@code text}, with each graph in a temporary folder called {@code the graph as Octet runs it}. */
    public static String ofBuilt(String text) {
        return text.contains("octet-") ? BUILT.matcher(text).replaceAll("the graph as Octet runs it") : text;
    }

    /** {@code text}, with each unfinished file called what it will be. */
    public static String in(String text) {
        if (!text.contains(".octet-") && !text.contains(".part") && !text.contains(".tmp")) {
            return text;
        }
        String exported = EXPORT.matcher(text).replaceAll("$1");
        return NEW.matcher(FILE.matcher(exported).replaceAll("$1")).replaceAll("");
    }
}
