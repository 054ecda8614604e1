/* SPDX-License-Identifier: MIT */
/* Traces as one drawing: SVG 1.1, nothing from outside, its colours by style classes for light and dark pages.
 * Positions along the time axis are in hundredths of a unit, so that they can be written as whole numbers. */
#include <stdio.h>

#include "observe/views.h"
#include "ovl/errors.h"

enum {
  WIDTH = 1000,
  LEFT = 150, /* of the time axis; before it are the lanes' names */
  PLOT = 830, /* its length */
  ROW = 24,   /* from one row to the next */
  BOX = 20,   /* height of an op */
  HEAD = 30,  /* above the rows of each trace */
  FOOT = 24,  /* the scale */
  TICKS = 8,  /* at most */
  COLOURS = 8,
  LEGEND_COLUMNS = 6,
  LANE_CHARACTERS = 18,
  STAGE_CHARACTERS = 16,
  TITLE_CHARACTERS = 60,
  DIGIT = 7,       /* width of one, at most */
  UNIT = 100,      /* hundredths */
  SHORT = UNIT,    /* shorter ops are drawn together */
  MOST = 8 * UNIT, /* as long as they are not longer than this */
  LEAST = UNIT / 2 /* what is drawn is at least so long */
};

static const char style[] =
    "<style>\n"
    "text{fill:#222}.page{fill:#fff}.line{stroke:#ddd}.bound{stroke:#b00;stroke-dasharray:4 3}\n"
    ".c0{fill:#6cb8e8}.c1{fill:#f0aa3c}.c2{fill:#67c9a4}.c3{fill:#e6d84a}\n"
    ".c4{fill:#d29bd0}.c5{fill:#e2926b}.c6{fill:#9aa8e6}.c7{fill:#a8b3b0}\n"
    "@media (prefers-color-scheme:dark){text{fill:#ddd}.page{fill:#15171a}.line{stroke:#3a3d42}"
    ".bound{stroke:#f77}}\n"
    "text.n{fill:#111;text-anchor:middle;font-size:11px}.failed{stroke:#d00;stroke-width:2}\n"
    "</style>\n";

/* One trace on the page. */
typedef struct panel {
  const ovl_trace_view_t *view;
  ovl_trace_list_t by_track;
  uint32_t rows;
  uint64_t begin; /* the time at the left: 0, unless what came first is missing */
} panel_t;

typedef struct svg {
  ovl_text_t text;
  ovl_trace_names_t names;
  uint64_t span; /* what the axis stands for; not 0 */
  uint32_t y;    /* where it goes on, downwards */
} svg_t;

/* Ops that are drawn as one box. */
typedef struct group {
  const ovl_trace_record_t *first;
  uint64_t count, busy;
  uint64_t start, end; /* times */
  uint64_t least_microbatch, most_microbatch;
  bool one_stage, failed;
} group_t;

/* ---- positions ----------------------------------------------------------------------------------------------- */

static uint64_t along(const svg_t *svg, uint64_t time) {
  return (uint64_t)((double)time / (double)svg->span * (PLOT * UNIT));
}

/* From the left of the page. */
static void put_x(svg_t *svg, const char *attribute, uint64_t hundredths) {
  uint64_t x = hundredths + LEFT * UNIT;
  ovl_text_print(&svg->text, " %s=\"%llu.%02u\"", attribute, (unsigned long long)(x / UNIT),
                 (unsigned)(x % UNIT));
}

static void put_width(svg_t *svg, uint64_t hundredths) {
  ovl_text_print(&svg->text, " width=\"%llu.%02u\"", (unsigned long long)(hundredths / UNIT),
                 (unsigned)(hundredths % UNIT));
}

/* ---- ops ----------------------------------------------------------------------------------------------------- */

static group_t group_of(const ovl_trace_record_t *r, uint64_t begin) {
  return (group_t){.first = r,
                   .count = 1,
                   .busy = ovl_trace_duration(r),
                   .start = r->start_ns - begin,
                   .end = r->end_ns - begin,
                   .least_microbatch = r->microbatch,
                   .most_microbatch = r->microbatch,
                   .one_stage = true,
                   .failed = r->status != 0};
}

static uint64_t length(const svg_t *svg, const group_t *g) {
  return along(svg, g->end) - along(svg, g->start);
}

/* Whether the two, one after the other on a track, are so short and close that they are drawn together. */
static bool belong_together(const svg_t *svg, const group_t *a, const group_t *b) {
  bool together = a->count > 1 || length(svg, a) < SHORT;
  return together && length(svg, b) < SHORT && along(svg, b->start) < along(svg, a->end) + SHORT &&
         along(svg, b->end) - along(svg, a->start) < MOST;
}

static void join(group_t *a, const group_t *b) {
  a->count += b->count;
  a->busy += b->busy;
  a->end = b->end;
  if (b->least_microbatch < a->least_microbatch)
    a->least_microbatch = b->least_microbatch;
  if (b->most_microbatch > a->most_microbatch)
    a->most_microbatch = b->most_microbatch;
  a->one_stage = a->one_stage && a->first->stage.id == b->first->stage.id;
  a->failed = a->failed || b->failed;
}

static void put_op_title(svg_t *svg, const ovl_trace_record_t *r) {
  ovl_text_t *text = &svg->text;
  ovl_text_xml(text, svg->names.stages[r->stage.id - 1], 0);
  ovl_text_print(text, ", microbatch %llu: ", (unsigned long long)r->microbatch);
  ovl_text_time(text, ovl_trace_duration(r));
  ovl_text_print(text, ", from ");
  ovl_text_time(text, r->start_ns);
  ovl_text_print(text, " to ");
  ovl_text_time(text, r->end_ns);
  if (r->status != 0)
    ovl_text_print(text, ", failed: %s (%d)", ovl_err_name(r->status), r->status);
}

static void put_group_title(svg_t *svg, const group_t *g, uint64_t begin) {
  ovl_text_t *text = &svg->text;
  ovl_text_print(text, "%llu ops of microbatches %llu to %llu, from ", (unsigned long long)g->count,
                 (unsigned long long)g->least_microbatch, (unsigned long long)g->most_microbatch);
  ovl_text_time(text, g->start + begin);
  ovl_text_print(text, " to ");
  ovl_text_time(text, g->end + begin);
  ovl_text_print(text, ", busy for ");
  ovl_text_time(text, g->busy);
  ovl_text_print(text, "%s", g->failed ? ", some failed" : "");
}

/* How dark a group is: by the part of its time that it was busy, in percent. */
static unsigned shade(const group_t *g) {
  if (g->count == 1 || g->end == g->start)
    return 100;
  return 25 + (unsigned)(75.0 * (double)g->busy / (double)(g->end - g->start));
}

static void draw_number(svg_t *svg, const group_t *g) {
  char number[24];
  int digits = snprintf(number, sizeof number, "%llu", (unsigned long long)g->first->microbatch);
  if (g->count > 1 || length(svg, g) < (uint64_t)(digits * DIGIT + 2) * UNIT)
    return;
  ovl_text_print(&svg->text, "<text class=\"n\" y=\"%u\"", (unsigned)svg->y + 14);
  put_x(svg, "x", along(svg, g->start) + length(svg, g) / 2);
  ovl_text_print(&svg->text, ">%s</text>", number);
}

static void draw_group(svg_t *svg, const group_t *g, uint64_t begin) {
  uint64_t width = length(svg, g);
  unsigned colour = g->one_stage ? (g->first->stage.id - 1) % COLOURS : COLOURS - 1;
  ovl_text_print(&svg->text, "<g><rect class=\"c%u%s\" y=\"%u\" height=\"%d\" rx=\"1\"", colour,
                 g->failed ? " failed" : "", (unsigned)svg->y, BOX);
  put_x(svg, "x", along(svg, g->start));
  put_width(svg, width > LEAST ? width : LEAST);
  if (shade(g) < 100)
    ovl_text_print(&svg->text, " fill-opacity=\"0.%02u\"", shade(g));
  ovl_text_print(&svg->text, "/><title>");
  if (g->count == 1)
    put_op_title(svg, g->first);
  else
    put_group_title(svg, g, begin);
  ovl_text_print(&svg->text, "</title>");
  draw_number(svg, g);
  ovl_text_print(&svg->text, "</g>\n");
}

/* ---- rows ---------------------------------------------------------------------------------------------------- */

static void draw_lane_name(svg_t *svg, const ovl_trace_record_t *r) {
  const char *name = svg->names.lanes[r->lane.id - 1];
  ovl_text_print(&svg->text, "<text x=\"%d\" y=\"%u\" text-anchor=\"end\">", LEFT - 8, (unsigned)svg->y + 14);
  ovl_text_xml(&svg->text, name, LANE_CHARACTERS);
  if (r->place > 0)
    ovl_text_print(&svg->text, " [%u]", (unsigned)r->place + 1);
  ovl_text_print(&svg->text, "<title>");
  ovl_text_xml(&svg->text, name, 0);
  ovl_text_print(&svg->text, "</title></text>\n");
}

/* The track that begins at list[0]; returns how many records it has. */
static size_t draw_row(svg_t *svg, ovl_trace_list_t list, size_t count, uint64_t begin) {
  size_t i = 1;
  group_t group = group_of(list[0], begin);
  draw_lane_name(svg, list[0]);
  for (; i < count && ovl_trace_same_track(list[0], list[i]); i++) {
    group_t next = group_of(list[i], begin);
    if (belong_together(svg, &group, &next)) {
      join(&group, &next);
    } else {
      draw_group(svg, &group, begin);
      group = next;
    }
  }
  draw_group(svg, &group, begin);
  svg->y += ROW;
  return i;
}

static void draw_heading(svg_t *svg, const panel_t *panel) {
  const ovl_trace_view_t *view = panel->view;
  ovl_text_t *text = &svg->text;
  ovl_text_print(text, "<text x=\"%d\" y=\"%u\" font-weight=\"bold\">", LEFT, (unsigned)svg->y + 20);
  ovl_text_xml(text, view->name, TITLE_CHARACTERS);
  ovl_text_print(text, ": ");
  ovl_text_time(text, view->trace->elapsed_ns);
  if (view->bound_ns > 0) {
    ovl_text_print(text, ", bound ");
    ovl_text_time(text, view->bound_ns);
  }
  if (panel->begin > 0) {
    ovl_text_print(text, ", shown from ");
    ovl_text_time(text, panel->begin);
  }
  ovl_text_print(text, "</text>\n");
}

static bool shows_bound(const panel_t *panel) { return panel->view->bound_ns > 0 && panel->begin == 0; }

static void draw_bound(svg_t *svg, const panel_t *panel) {
  uint64_t at = along(svg, panel->view->bound_ns);
  ovl_text_print(&svg->text, "<line class=\"bound\" y1=\"%u\" y2=\"%u\"", (unsigned)svg->y,
                 (unsigned)svg->y + panel->rows * ROW);
  put_x(svg, "x1", at);
  put_x(svg, "x2", at);
  ovl_text_print(&svg->text, "><title>bound: ");
  ovl_text_time(&svg->text, panel->view->bound_ns);
  ovl_text_print(&svg->text, "</title></line>\n");
}

static void draw_panel(svg_t *svg, const panel_t *panel) {
  draw_heading(svg, panel);
  svg->y += HEAD;
  uint32_t top = svg->y;
  for (size_t i = 0; i < panel->view->trace->count;)
    i += draw_row(svg, panel->by_track + i, panel->view->trace->count - i, panel->begin);
  svg->y = top;
  if (shows_bound(panel))
    draw_bound(svg, panel);
  svg->y += panel->rows * ROW;
}

/* ---- the scale and the legend -------------------------------------------------------------------------------- */

/* 1, 2 or 5 times a power of ten, so that there are at most TICKS of them. */
static uint64_t step_for(uint64_t span) {
  static const uint64_t factors[] = {2, 5, 10};
  uint64_t power = 1, step = 1;
  for (unsigned f = 0; span / step > TICKS; f = (f + 1) % 3) {
    step = power * factors[f];
    if (f == 2)
      power *= 10;
  }
  return step;
}

/* Behind all that follows, from the top of the page to the scale. */
static void draw_scale(svg_t *svg, uint32_t bottom) {
  uint64_t step = step_for(svg->span);
  for (uint64_t k = 0; k <= svg->span / step; k++) {
    uint64_t at = along(svg, k * step);
    ovl_text_print(&svg->text, "<line class=\"line\" y1=\"%d\" y2=\"%u\"", HEAD, (unsigned)bottom);
    put_x(svg, "x1", at);
    put_x(svg, "x2", at);
    ovl_text_print(&svg->text, "/><text text-anchor=\"middle\" y=\"%u\"", (unsigned)bottom + 16);
    put_x(svg, "x", at);
    ovl_text_print(&svg->text, ">");
    ovl_text_time(&svg->text, k * step);
    ovl_text_print(&svg->text, "</text>\n");
  }
}

static uint32_t legend_rows(const svg_t *svg) {
  return (svg->names.plan->stage_count + LEGEND_COLUMNS - 1) / LEGEND_COLUMNS;
}

static void draw_legend(svg_t *svg) {
  for (uint32_t s = 0; s < svg->names.plan->stage_count; s++) {
    unsigned x = LEFT + s % LEGEND_COLUMNS * (PLOT / LEGEND_COLUMNS);
    unsigned y = svg->y + FOOT + s / LEGEND_COLUMNS * ROW;
    ovl_text_print(&svg->text, "<rect class=\"c%u\" x=\"%u\" y=\"%u\" width=\"12\" height=\"12\"/>",
                   (unsigned)s % COLOURS, x, y + 4);
    ovl_text_print(&svg->text, "<text x=\"%u\" y=\"%u\">", x + 18, y + 14);
    ovl_text_xml(&svg->text, svg->names.stages[s], STAGE_CHARACTERS);
    ovl_text_print(&svg->text, "</text>\n");
  }
}

/* ---- the page ------------------------------------------------------------------------------------------------ */

static uint64_t first_start(const ovl_trace_t *trace) {
  uint64_t first = UINT64_MAX;
  for (size_t i = 0; i < trace->count; i++)
    if (ovl_trace_at(trace, i)->start_ns < first)
      first = ovl_trace_at(trace, i)->start_ns;
  return first;
}

static bool panel_init(panel_t *panel, const ovl_trace_view_t *view, const ovl_memory_t *memory) {
  const ovl_trace_t *trace = view->trace;
  panel->view = view;
  panel->by_track = ovl_trace_by_track(trace, memory);
  if (panel->by_track == NULL)
    return false;
  for (size_t i = 0; i < trace->count; i++)
    panel->rows += i == 0 || !ovl_trace_same_track(panel->by_track[i - 1], panel->by_track[i]);
  if (trace->count > 0 && trace->dropped + trace->kept > trace->count)
    panel->begin = first_start(trace);
  return true;
}

static uint64_t panel_span(const panel_t *panel) {
  uint64_t span = shows_bound(panel) ? panel->view->bound_ns : 0;
  for (size_t i = 0; i < panel->view->trace->count; i++) {
    uint64_t end = ovl_trace_at(panel->view->trace, i)->end_ns - panel->begin;
    span = end > span ? end : span;
  }
  return span;
}

static void draw_page(svg_t *svg, const panel_t *panels, size_t count) {
  uint32_t bottom = 0;
  for (size_t i = 0; i < count; i++)
    bottom += HEAD + panels[i].rows * ROW;
  unsigned height = bottom + FOOT + legend_rows(svg) * ROW + ROW / 2;
  ovl_text_print(&svg->text,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %u\" width=\"%d\" height=\"%u\" "
                 "font-family=\"sans-serif\" font-size=\"12\">\n",
                 WIDTH, height, WIDTH, height);
  ovl_text_print(&svg->text, "<title>Timeline</title>\n");
  ovl_text_put(&svg->text, style);
  ovl_text_print(&svg->text, "<rect class=\"page\" width=\"%d\" height=\"%u\"/>\n", WIDTH, height);
  draw_scale(svg, bottom);
  for (size_t i = 0; i < count; i++)
    draw_panel(svg, &panels[i]);
  draw_legend(svg);
  ovl_text_print(&svg->text, "</svg>\n");
}

int ovl_trace_write_svg(const ovl_trace_names_t *names, const ovl_trace_view_t *views, size_t count,
                        const ovl_memory_t *memory, ovl_write_cb write, void *context) {
  svg_t svg = {.names = *names, .span = 1};
  panel_t *panels = ovl_memory_array(memory, count, sizeof *panels);
  bool whole = panels != NULL;
  for (size_t i = 0; whole && i < count; i++) {
    whole = panel_init(&panels[i], &views[i], memory);
    if (whole && panel_span(&panels[i]) > svg.span)
      svg.span = panel_span(&panels[i]);
  }
  ovl_text_begin(&svg.text, write, context);
  if (whole)
    draw_page(&svg, panels, count);
  for (size_t i = 0; panels != NULL && i < count; i++)
    ovl_trace_list_free(panels[i].by_track, memory);
  ovl_memory_free(memory, panels);
  int written = ovl_text_end(&svg.text);
  return whole ? written : OVL_ENOMEM;
}
