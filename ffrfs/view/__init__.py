"""The web viewer: pages about one data set, or two side by side, for one person on this machine.

    view.py         `ffrfs.view()`: opens the data set and serves it
    server.py       the listening socket, hypercorn on trio
    guard.py        the only entrance: token, host, GET, headers
    app.py          the routes; page.py renders a page as HTML or JSON
    collection.py   the data set as numbered items: files of packs, or Examples of TFRecord files
    gallery.py      the tiles; choice.py, conditions.py: filters and orders, found in the background
    thumbnails.py   pictures made small by child processes, whose program is shrink.py
    item.py         the page of a file: plain.py shows text and bytes
    sandbox.py      decodes in a child process (child.py), by decoders.py
    safe_bytes.py   the bytes of members, made safe for a browser

A page is a module with functions of a request, and a template. They run in threads, because
reading waits; nothing but the server is asynchronous.
"""
