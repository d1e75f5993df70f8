package dev.octet.cli;

import java.util.ArrayList;
import java.util.List;
import org.apache.commons.cli.Option;

/** The texts behind {@code --help}, as wide as the terminal, at most {@link TextStyle#prose}. */
final class HelpPage {
    /** The column of descriptions begins here at the latest; longer options stand on a line of their own. */
    private static final int WIDEST_HEAD = 30;

    private static final int INDENT = 2;
    private static final int GAP = 2;

    private HelpPage() {}

    /** The list of verbs. */
    static String ofAll(List<Command> commands) {
        int column = commands.stream().mapToInt(c -> c.name().length()).max().orElse(0) + GAP;
        StringBuilder page =
                new StringBuilder(TextStyle.heading("usage:")).append(" octet VERB [options] ARGUMENTS\n\n");
        for (Command command : commands) {
            appendEntry(page, command.name(), column, command.summary());
        }
        page.append('\n');
        appendText(page, "'octet VERB --help' shows a verb's options and examples, 'octet --version' the version.", 0);
        return page.toString();
    }

    /** Usage, options with their defaults, examples. */
    static String of(Command command) {
        List<Option> options = Flags.of(command);
        List<String> heads = new ArrayList<>();
        options.forEach(o -> heads.add(head(o)));
        int longest = heads.stream().mapToInt(String::length).max().orElse(0) + GAP;
        int column = Math.min(longest, Math.min(WIDEST_HEAD, TextStyle.here().prose() / 3));
        StringBuilder page =
                new StringBuilder(TextStyle.heading("usage:")).append(" octet ").append(command.name());
        command.operands().forEach(o -> page.append(' ').append(o));
        page.append(command.takesMore() ? "..." : "").append(" [options]\n\n");
        appendText(page, command.summary(), 0);
        page.append('\n').append(TextStyle.heading("options:")).append('\n');
        for (int i = 0; i < options.size(); i++) {
            appendEntry(page, heads.get(i), column, options.get(i).getDescription());
        }
        page.append('\n').append(TextStyle.heading("examples:")).append('\n');
        command.examples().forEach(e -> appendExample(page, e));
        return page.toString();
    }

    private static String head(Option option) {
        String name = (option.getOpt() == null ? "" : "-" + option.getOpt() + ", ") + "--" + option.getLongOpt();
        return option.hasArg() ? name + " " + option.getArgName() : name;
    }

    private static void appendEntry(StringBuilder page, String head, int column, String text) {
        page.append(" ".repeat(INDENT)).append(head);
        int used = INDENT + head.length();
        int start = column + INDENT;
        if (head.length() + GAP > column) {
            page.append('\n');
            used = 0;
        }
        page.append(" ".repeat(start - used));
        appendText(page, text, start);
    }

    /** Prose whose lines start at {@code indent}, where the first one is already. */
    private static void appendText(StringBuilder page, String text, int indent) {
        List<String> lines = TextStyle.broken(text, TextStyle.here().prose() - indent);
        page.append(String.join("\n" + " ".repeat(indent), lines)).append('\n');
    }

    private static void appendExample(StringBuilder page, String example) {
        List<String> lines = TextStyle.broken(example, TextStyle.here().prose() - 3 * INDENT);
        page.append(" ".repeat(INDENT))
                .append(String.join("\n" + " ".repeat(3 * INDENT), lines))
                .append('\n');
    }
}
